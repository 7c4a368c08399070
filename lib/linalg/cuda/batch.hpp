// Batches on their way to the GPU.
//
// The host gathers a batch's rows into pinned memory, a copy stream brings them over while kernels
// work on the batch before, and the compute stream waits for that copy alone. Four slots in turn:
// features and labels of two batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "linalg/cuda/resources.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

class BatchStage {
 public:
  explicit BatchStage(const Stream& compute);

  // See BasicDevice::stage. The copy is compact: offsets from 0, no row numbers.
  template <class Real>
  SparseRows<Real> stage(const SparseRows<Real>& batch);

  // Of a batch that stage() made. Checked: it did, and the batch is still good.
  template <class Real>
  std::size_t nonzeros(const SparseRows<Real>& staged) const {
    return nonzeros_at(staged.begin);
  }

 private:
  struct Slot {
    explicit Slot(const Stream& copy) : memory(copy) {}
    Pinned pinned;
    DeviceMemory memory;
    Event copied;                          // in the copy stream
    const std::uint64_t* begin = nullptr;  // in `memory`
    std::size_t nonzeros = 0;
    std::uint64_t call = 0;
  };
  static constexpr std::size_t kSlots = 4;
  static constexpr std::uint64_t kGood = 2;  // later calls that a batch outlives, the last not

  std::size_t nonzeros_at(const std::uint64_t* begin) const;

  const Stream& compute_;
  Stream copy_;
  std::array<Slot, kSlots> slots_;
  std::array<Event, kSlots> began_;  // in the compute stream, at the call of that number
  std::uint64_t calls_ = 0;
};

}  // namespace hetsgd::cuda
