// Rows of a shard's tier in host memory as kernels reach them: in place, or in a copy
// (HostAccess::copy) that has the rows of one list and goes back where kernels have written.
//
//   host rows ──gather──> pinned ──copy──> device ──kernels──> device ──copy──> pinned ──> host rows
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "linalg/cuda/resources.hpp"
#include "linalg/table_kernels.hpp"

namespace hetsgd::cuda {

template <class Real>
class HostTier {
 public:
  // What kernels are given in place of a shard and a list of its rows.
  struct Reached {
    ShardRows<Real> shard;
    const std::uint32_t* row;  // [n] host memory
  };
  enum class Vectors { weights, weights_and_state };

  explicit HostTier(const Stream& stream) : stream_(stream), device_(stream) {}

  // The rows of the list, of which some may be equal; of their state what the shard has, if it is
  // asked for. Where the host's rows are copied all earlier take_back() of the shard are over, since
  // each waits. Good until the next call; of the current device.
  Reached bring(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
                Vectors vectors);
  // Kernels that write have been given to the stream: what bring() copied goes back. Returns when it
  // is there.
  void take_back();

 private:
  // One vector of the tier: the weights, or a state.
  std::vector<Real*> vectors_of(const ShardRows<Real>& shard, Vectors vectors) const;
  void list_host_rows(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row);
  // fn(number in the pinned buffer, the row in host memory), for all rows of all vectors.
  template <class Fn>
  void for_each_row(const Fn& fn) const;
  void copy(void* to, const void* from, cudaMemcpyKind kind);

  const Stream& stream_;
  DeviceMemory device_;
  Pinned pinned_;
  Event copied_;                              // the last copy to the pinned buffer or from it
  std::vector<std::uint32_t> rows_, number_;  // distinct ones of the tier; by entry of the list
  std::vector<Real*> host_;                   // vectors, of the copy under way
  std::size_t stride_ = 0, bytes_ = 0;
  Real *here_ = nullptr, *there_ = nullptr;  // the rows on the device and in the pinned buffer
};

}  // namespace hetsgd::cuda
