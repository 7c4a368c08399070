// NcclMember: one rank of an NCCL communicator: its GPU, its stream and the collectives of Comm.
//
//              done()             start()                done()
//    joining ---------> idle --------------> pending ------------> idle
//       |                                       |
//       +---------------------------------------+-----> aborted: abort(), or the destructor
//                                                       while something is pending
#pragma once

#ifdef HETSGD_NCCL
#include <memory>
#include <vector>

#include "cluster/cuda/gpu_group.hpp"
#include "cluster/cuda/nccl.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "core/non_copyable.hpp"
#include "linalg/cuda/resources.hpp"

namespace hetsgd::cuda {

// Used by one thread at a time, and by both groups of ranks: threads of one process
// (nccl_group.cpp) and processes (rank_gpu.cpp). Collectives run on the member's own stream, which
// waits for no other stream. So the caller must first wait until its buffers are ready.
class NcclMember final : public NcclRank, NonCopyable {
 public:
  // Takes over `comm`, whose GPU is `gpu` and the current one; it may still be in the making
  // (blocking = 0).
  NcclMember(ncclComm_t comm, int gpu, int rank, int size);
  // Destroys the communicator; aborts it where a call failed or has not ended, since destroying it
  // would wait for the other ranks.
  ~NcclMember() override;

  // Starts the share of this rank; in and out as GpuGroup::move has them. Only when done(). Throws
  // Error(device) if a call fails.
  void start(const CollectiveCall& call, const void* in, void* out) override;
  // True: the communicator is there, and what was started has ended. Does not wait. Throws
  // Error(device) if it never will.
  bool done() override;
  // From here on its kernels wait for nobody. Nothing can be started any more (checked).
  void abort() noexcept override;

 private:
  // Gives one collective to NCCL. Its result may be "in progress".
  ncclResult_t launch(const CollectiveCall& call, const void* in, void* out);
  // Blocks of Comm may differ in size by one, which NCCL's own does not allow.
  ncclResult_t reduce_scatter(const CollectiveCall& call, std::byte* data);
  ncclResult_t all_to_all(const AllToAll& mine);

  const Nccl& nccl_ = Nccl::get();
  // Null: aborted.
  ncclComm_t comm_;
  const int gpu_, rank_, size_;
  const Stream stream_;
  // True while joining, too.
  bool pending_ = true;
};

// GpuGroup by NCCL: the ranks of one process, with a communicator for each, made together at the
// first call. fetch() and everything else that NCCL does not do use a RingGroup with `options`.
// Requires: nccl_problem(gpus) is empty.
std::unique_ptr<GpuGroup> make_nccl_group(std::vector<int> gpus, const GpuGroupOptions& options);

}  // namespace hetsgd::cuda
#endif
