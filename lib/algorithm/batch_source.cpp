#include "algorithm/batch_source.hpp"

#include <utility>

#include "core/error.hpp"

namespace hetsgd {

BatchSource::BatchSource(Run& run, const Endpoint& endpoint)
    : run_(run),
      rank_(endpoint.rank()),
      id_(endpoint.id()),
      workers_(static_cast<std::uint64_t>(endpoint.size())),
      shared_(run.plan().partition == Partition::shared) {
  if (!run.plan().share_orphans) return;
  adopted_ = run.sampler().adopted_by(static_cast<std::size_t>(rank_), run.state().view());
}

std::optional<SampleRange> BatchSource::own_range(std::uint64_t size) const {
  if (!shared_) return SampleRange{cursor_, size};
  if (!run_.synchronous()) return std::nullopt;
  return SampleRange{cursor_ + static_cast<std::uint64_t>(rank_) * size, size};
}

const Batch& BatchSource::next(std::uint64_t size) {
  HETSGD_CHECK(size > 0);
  resize(1);
  std::optional<SampleRange> range = own_range(size);
  if (range) {
    cursor_ += (shared_ ? workers_ : 1) * size;
    expected_ = own_range(size);
  } else {
    range = SampleRange{run_.draw(rank_, size), size};
    expected_.reset();
  }
  last_ = *range;
  return take(0, *range);
}

const Batch& BatchSource::again() {
  resize(1);
  return take(0, last_);
}

std::span<const Batch> BatchSource::next(std::uint64_t size, const LearnerShare& share) {
  HETSGD_CHECK(run_.synchronous());
  resize(static_cast<std::size_t>(share.mine));
  const auto first = [&] {
    return cursor_ + (shared_ ? static_cast<std::uint64_t>(share.before) * size : 0);
  };
  for (std::size_t j = 0; j < batches_.size(); ++j) take(j, {first() + j * size, size});
  cursor_ += static_cast<std::uint64_t>(shared_ ? share.all : share.mine) * size;
  expected_ = SampleRange{first(), size};
  return batches_;
}

const Batch& BatchSource::at(SampleRange range) {
  resize(1);
  expected_.reset();
  return take(0, range);
}

void BatchSource::resize(std::size_t learners) {
  batches_.resize(learners);
  prefetched_.resize(learners);
}

const Batch& BatchSource::take(std::size_t learner, SampleRange range) {
  Batch& batch = batches_[learner];
  Prefetched& prefetched = prefetched_[learner];
  if (prefetched.range == range) {
    std::swap(batch, prefetched.batch);
    prefetched.range.reset();
  } else {
    run_.sampler().fill(id_, adopted_, range, batch);
  }
  return batch;
}

const Batch* BatchSource::upcoming(std::size_t learner) {
  if (!expected_ || learner >= prefetched_.size()) return nullptr;
  Prefetched& prefetched = prefetched_[learner];
  prefetched.range = SampleRange{expected_->begin + learner * expected_->count, expected_->count};
  run_.sampler().fill(id_, adopted_, *prefetched.range, prefetched.batch);
  return &prefetched.batch;
}

}  // namespace hetsgd
