// Transfer of batches to the GPU.
//
// The host gathers a batch's rows into pinned memory. A copy stream transfers them while kernels
// work on the previous batch, and the compute stream waits for that copy alone. Four slots are used
// in turn, for features and labels of two batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/sparse.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

class BatchStage {
 public:
  explicit BatchStage(const Stream& compute);

  // See BasicDevice::stage. The copy is compact: offsets from 0, no row numbers.
  template <class Real>
  SparseRows<Real> stage(const SparseRows<Real>& batch);
  template <class Real>
  FieldRows<Real> stage(const FieldRows<Real>& batch);

  // Checks that stage() made these rows and that they are still valid.
  template <class Real>
  void check(const SparseRows<Real>& staged) {
    static_cast<void>(slot_of(staged.begin));
  }
  template <class Real>
  void check(const FieldRows<Real>& staged) {
    static_cast<void>(slot_of(staged));
  }
  // Rows that stage() made (checked, as above) by column, for later work of the compute stream.
  template <class Real>
  ByColumn by_column(const SparseRows<Real>& staged);
  // Lookups by category; values are 1.
  template <class Real>
  ByColumn by_column(const FieldRows<Real>& staged) {
    return *slot_of(staged).sorted;
  }

 private:
  struct Slot {
    explicit Slot(const Stream& copy)
        : memory(copy), unsorted(copy), entries(copy), columns(copy) {}
    Pinned pinned;
    DeviceMemory memory, unsorted, entries, columns;
    Event copied;  // in the copy stream; after the sort, if there are values or fields
    std::optional<ByColumn> sorted;
    const std::uint64_t* begin = nullptr;  // in `memory`
    const std::uint32_t* index = nullptr;  // behind it
    std::size_t nonzeros = 0;
    std::uint64_t call = 0;
  };
  static constexpr std::size_t kSlots = 4;
  // Later calls of stage() that a batch outlives, the last one not included.
  static constexpr std::uint64_t kGood = 2;

  // Returns the next slot, whose host part is free; send() copies to the GPU.
  Slot& open();
  std::byte* send(Slot& slot, const std::byte* host, std::size_t bytes);
  void close(Slot& slot);
  Slot& slot_of(const std::uint64_t* begin);
  template <class Real>
  Slot& slot_of(const FieldRows<Real>& staged);
  template <class Real>
  void sort(Slot& slot, const SparseRows<Real>& staged);

  const Stream& compute_;
  Stream copy_;
  std::array<Slot, kSlots> slots_;
  DeviceMemory work_;                // of sorts, which run one after the other in the copy stream
  std::array<Event, kSlots> began_;  // in the compute stream, at the call with that number
  std::uint64_t calls_ = 0;
  // Batches without values are sorted when they are staged, beside the kernels of the batch before.
  bool sorts_labels_ = false;
};

}  // namespace hetsgd::cuda
