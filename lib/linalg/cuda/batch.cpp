#include "linalg/cuda/batch.hpp"

#include <cstring>

#include "core/error.hpp"
#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

namespace {

// Offsets, then column numbers, then values, each array aligned.
struct Parts {
  Parts(std::size_t rows, std::size_t nonzeros, bool values)
      : index(round_up((rows + 1) * sizeof(std::uint64_t), kAlignment)),
        value(round_up(index + nonzeros * sizeof(std::uint32_t), kAlignment)),
        bytes(value + (values ? nonzeros * sizeof(float) : 0)) {}
  static constexpr std::size_t kAlignment = 128;
  std::size_t index, value, bytes;
};

template <class Real>
std::size_t count_nonzeros(const SparseRows<Real>& batch) {
  std::size_t count = 0;
  for (std::size_t r = 0; r < batch.rows; ++r) {
    const std::size_t source = batch.source_row(r);
    count += batch.begin[source + 1] - batch.begin[source];
  }
  return count;
}

template <class Real>
void gather(const SparseRows<Real>& batch, const Parts& parts, std::byte* to) {
  auto* const begin = reinterpret_cast<std::uint64_t*>(to);
  auto* index = reinterpret_cast<std::uint32_t*>(to + parts.index);
  auto* value = reinterpret_cast<float*>(to + parts.value);
  std::uint64_t at = 0;
  for (std::size_t r = 0; r < batch.rows; ++r) {
    const std::size_t source = batch.source_row(r);
    const std::uint64_t from = batch.begin[source], count = batch.begin[source + 1] - from;
    begin[r] = at;
    if (count == 0) continue;  // an empty matrix has no arrays
    std::memcpy(index + at, batch.index + from, count * sizeof(std::uint32_t));
    if (batch.value) std::memcpy(value + at, batch.value + from, count * sizeof(float));
    at += count;
  }
  begin[batch.rows] = at;
}

template <class Real>
void gather(const FieldRows<Real>& batch, const Parts& parts, std::byte* to) {
  auto* const begin = reinterpret_cast<std::uint64_t*>(to);
  auto* const category = reinterpret_cast<std::uint32_t*>(to + parts.index);
  auto* const dense = reinterpret_cast<float*>(to + parts.value);
  const std::size_t F = batch.fields, K = batch.columns;
  for (std::size_t r = 0; r < batch.rows; ++r) {
    const std::size_t source = batch.source_row(r);
    begin[r] = r * F;
    std::memcpy(category + r * F, batch.category + source * F, F * sizeof(std::uint32_t));
    if (K > 0) std::memcpy(dense + r * K, batch.dense + source * K, K * sizeof(float));
  }
  begin[batch.rows] = batch.rows * F;
}

}  // namespace

BatchStage::BatchStage(const Stream& compute)
    : compute_(compute), slots_{Slot(copy_), Slot(copy_), Slot(copy_), Slot(copy_)}, work_(copy_) {}

BatchStage::Slot& BatchStage::open() {
  Slot& slot = slots_[calls_ % kSlots];
  began_[calls_ % kSlots].record(compute_);
  // Waits until the host's part of the slot is free. Normally its last copy is long over.
  slot.copied.wait();
  slot.sorted.reset();
  return slot;
}

std::byte* BatchStage::send(Slot& slot, const std::byte* host, std::size_t bytes) {
  // The batch that was staged here four calls ago was valid until two calls ago. Kernels that read
  // it were given to the compute stream before that.
  if (calls_ >= kGood) began_[(calls_ - kGood) % kSlots].hold(copy_);
  auto* const device = slot.memory.reserve<std::byte>(bytes, "a batch");
  HETSGD_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, copy_.get()));
  slot.begin = reinterpret_cast<const std::uint64_t*>(device);
  slot.call = calls_++;
  return device;
}

void BatchStage::close(Slot& slot) {
  slot.copied.record(copy_);
  slot.copied.hold(compute_);
}

template <class Real>
SparseRows<Real> BatchStage::stage(const SparseRows<Real>& batch) {
  Slot& slot = open();
  const std::size_t nonzeros = count_nonzeros(batch);
  // Nonzeros are counted with an int in the sort by column, samples with 32 bits.
  HETSGD_CHECK_LT(nonzeros, std::size_t{1} << 31);
  HETSGD_CHECK_LT(batch.rows, std::size_t{1} << 31);
  const Parts parts(batch.rows, nonzeros, batch.value != nullptr);
  std::byte* const host = slot.pinned.reserve(parts.bytes, "a batch on its way to the GPU");
  gather(batch, parts, host);
  std::byte* const device = send(slot, host, parts.bytes);
  slot.nonzeros = nonzeros;
  slot.index = nullptr;
  const SparseRows<Real> staged{
      .rows = batch.rows,
      .columns = batch.columns,
      .row = nullptr,
      .begin = slot.begin,
      .index = reinterpret_cast<const std::uint32_t*>(device + parts.index),
      .value = batch.value ? reinterpret_cast<const float*>(device + parts.value) : nullptr};
  if (batch.value || sorts_labels_) sort(slot, staged);
  close(slot);
  return staged;
}

// Stages fields as a matrix of ones with a column per category; the dense elements take the place
// of values.
template <class Real>
FieldRows<Real> BatchStage::stage(const FieldRows<Real>& batch) {
  Slot& slot = open();
  const std::size_t lookups = batch.rows * batch.fields, numbers = batch.rows * batch.columns;
  HETSGD_CHECK_LT(lookups, std::size_t{1} << 31);
  HETSGD_CHECK_LT(batch.rows, std::size_t{1} << 31);
  Parts parts(batch.rows, lookups, false);
  parts.bytes += numbers * sizeof(float);
  std::byte* const host = slot.pinned.reserve(parts.bytes, "a batch on its way to the GPU");
  gather(batch, parts, host);
  std::byte* const device = send(slot, host, parts.bytes);
  slot.nonzeros = lookups;
  slot.index = reinterpret_cast<const std::uint32_t*>(device + parts.index);
  FieldRows<Real> staged = batch;
  staged.row = nullptr;
  staged.dense = reinterpret_cast<const float*>(device + parts.value);
  staged.category = slot.index;
  sort(slot, SparseRows<Real>{.rows = batch.rows,
                              .columns = batch.categories,
                              .row = nullptr,
                              .begin = slot.begin,
                              .index = slot.index,
                              .value = nullptr});
  close(slot);
  return staged;
}

template <class Real>
void BatchStage::sort(Slot& slot, const SparseRows<Real>& staged) {
  constexpr const char* kPurpose = "the nonzeros of a batch by feature";
  const std::size_t n = slot.nonzeros, bytes = n > 0 ? sort_bytes(n, staged.columns) : 0;
  slot.sorted = sort_by_column(copy_.get(), staged, n,
                               {.unsorted = slot.unsorted.reserve<Entry>(n, kPurpose),
                                .entries = slot.entries.reserve<Entry>(n, kPurpose),
                                .columns = slot.columns.reserve<std::uint32_t>(n, kPurpose),
                                .work = work_.reserve<std::byte>(bytes, kPurpose),
                                .work_bytes = bytes});
}

template <class Real>
ByColumn BatchStage::by_column(const SparseRows<Real>& staged) {
  Slot& slot = slot_of(staged.begin);
  if (!slot.sorted) {
    sorts_labels_ = true;  // whoever asks for one batch will ask for the next
    sort(slot, staged);
    close(slot);
  }
  return *slot.sorted;
}

BatchStage::Slot& BatchStage::slot_of(const std::uint64_t* begin) {
  for (Slot& slot : slots_) {
    if (slot.begin != nullptr && slot.begin == begin && calls_ - slot.call <= kGood) return slot;
  }
  throw CheckFailure("a GPU kernel got rows that its device's stage() did not make, or not lately");
}

template <class Real>
BatchStage::Slot& BatchStage::slot_of(const FieldRows<Real>& staged) {
  for (Slot& slot : slots_) {
    if (slot.index != nullptr && slot.index == staged.category) return slot_of(slot.begin);
  }
  return slot_of(nullptr);  // reports what is wrong
}

template ByColumn BatchStage::by_column<float>(const SparseRows<float>&);
template ByColumn BatchStage::by_column<double>(const SparseRows<double>&);
template SparseRows<float> BatchStage::stage<float>(const SparseRows<float>&);
template SparseRows<double> BatchStage::stage<double>(const SparseRows<double>&);
template FieldRows<float> BatchStage::stage<float>(const FieldRows<float>&);
template FieldRows<double> BatchStage::stage<double>(const FieldRows<double>&);
template BatchStage::Slot& BatchStage::slot_of<float>(const FieldRows<float>&);
template BatchStage::Slot& BatchStage::slot_of<double>(const FieldRows<double>&);

}  // namespace hetsgd::cuda
