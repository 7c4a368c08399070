#include "algorithm/batch_source.hpp"

#include <utility>

#include "core/error.hpp"

namespace hetsgd {

BatchSource::BatchSource(Run& run, int rank, int size)
    : run_(run),
      rank_(rank),
      workers_(static_cast<std::uint64_t>(size)),
      shared_(run.plan().partition == Partition::shared) {}

std::optional<SampleRange> BatchSource::own_range(std::uint64_t size) const {
  if (!shared_) return SampleRange{cursor_, size};
  if (!run_.synchronous()) return std::nullopt;
  return SampleRange{cursor_ + static_cast<std::uint64_t>(rank_) * size, size};
}

const Batch& BatchSource::next(std::uint64_t size) {
  HETSGD_CHECK(size > 0);
  std::optional<SampleRange> range = own_range(size);
  if (range) {
    cursor_ += (shared_ ? workers_ : 1) * size;
    expected_ = own_range(size);
  } else {
    range = SampleRange{run_.draw(size), size};
    expected_.reset();
  }
  if (prefetched_range_ && prefetched_range_->begin == range->begin &&
      prefetched_range_->count == size) {
    std::swap(batch_, prefetched_);
    prefetched_range_.reset();
  } else {
    run_.sampler().fill(rank_, *range, batch_);
  }
  return batch_;
}

std::span<const Batch> BatchSource::next(std::uint64_t size, const LearnerShare& share) {
  HETSGD_CHECK(run_.synchronous());
  batches_.resize(static_cast<std::size_t>(share.mine));
  const auto first = [&] {
    return cursor_ + (shared_ ? static_cast<std::uint64_t>(share.before) * size : 0);
  };
  std::uint64_t begin = first();
  for (Batch& batch : batches_) {
    run_.sampler().fill(rank_, {begin, size}, batch);
    begin += size;
  }
  cursor_ += static_cast<std::uint64_t>(shared_ ? share.all : share.mine) * size;
  expected_ = SampleRange{first(), size};
  return batches_;
}

const Batch& BatchSource::at(SampleRange range) {
  expected_.reset();
  run_.sampler().fill(rank_, range, batch_);
  return batch_;
}

const Batch* BatchSource::upcoming() {
  if (!expected_) return nullptr;
  run_.sampler().fill(rank_, *expected_, prefetched_);
  prefetched_range_ = expected_;
  return &prefetched_;
}

}  // namespace hetsgd
