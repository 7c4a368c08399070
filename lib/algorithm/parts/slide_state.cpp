#include "algorithm/parts/slide_state.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace hetsgd {

SlideState::SlideState(const Model& model, const SlideOptions& options,
                       const OptimizerOptions& optimizer, std::uint64_t seed, int workers,
                       std::unique_ptr<Monitor> monitor)
    : clock(optimizer, options.lazy),
      layer0(clock, {.rows = SampledShape(model).features, .cols = SampledShape(model).hidden}),
      bias0(clock, {.offset = SampledShape(model).bias0, .rows = 1, .cols = layer0.block().cols}),
      rows(clock, {.offset = SampledShape(model).weight,
                   .rows = SampledShape(model).labels,
                   .cols = layer0.block().cols,
                   .bias = SampledShape(model).bias}),
      shape_(model),
      all_active_(options.active.all),
      hashing_(*model.hashed_labels()),
      seed_(seed),
      workers_(workers),
      monitor_(std::move(monitor)),
      schedule_(hashing_) {}

void SlideState::fields(Archive& fields) {
  std::uint64_t selections = selections_;
  fields("clock", clock);
  fields("layer0", layer0);
  fields("bias0", bias0);
  fields("rows", rows);
  fields("schedule", schedule_);
  fields("retrieval", retrieval_);
  fields("selections", selections);
  selections_ = selections;
}

std::optional<SlideState::Rehash> SlideState::begin_rehash() {
  if (all_active_) return std::nullopt;
  const std::uint32_t complete = clock.complete();
  const std::lock_guard lock(*monitor_);
  if (rehashing_) return std::nullopt;
  const auto due = schedule_.begin(complete);
  if (!due) return std::nullopt;
  rehashing_ = true;
  if (due->rebuilt) {
    hash_ = std::make_shared<const LabelHash>(hashing_.hash, shape_.hidden, seed_, due->generation);
  }
  if (workers_ == 1) index_.reset();
  return Rehash{*due, hash_};
}

LabelIndex SlideState::make_index(const Rehash& rehash, const float* W, HostCores& cores) const {
  return {rehash.hash, LabelTables(*rehash.hash, shape_.labels, W, hashing_.bucket, seed_,
                                   rehash.schedule.number, cores)};
}

void SlideState::publish(LabelIndex index) {
  auto shared = std::make_shared<const LabelIndex>(std::move(index));
  const std::lock_guard lock(*monitor_);
  index_ = std::move(shared);
  rehashing_ = false;
  monitor_->notify_all();
}

std::shared_ptr<const LabelIndex> SlideState::index() {
  if (all_active_) return nullptr;
  const std::lock_guard lock(*monitor_);
  monitor_->wait([this] { return index_ != nullptr; }, "the first hash tables");
  return index_;
}

void SlideState::count(const Retrieval& retrieval) {
  const std::lock_guard lock(retrieval_mutex_);
  retrieval_ += retrieval;
}

Retrieval SlideState::take_retrieval() {
  const std::lock_guard lock(retrieval_mutex_);
  return std::exchange(retrieval_, {});
}

void SlideOptions::declare(OptionSet& set) {
  set.add_choice("active", active.all, {{"tables", false}, {"all", true}},
                 "Labels that a training sample scores. tables: those that the hash tables return. "
                 "all: every label.");
  set.add("active_min", active.least,
          "Smallest number of active labels of a sample. Random labels fill up to it.")
      .unit("labels")
      .range(0, 4e9);
  set.add_choice("fill", active.fill, {{"batch", LabelFill::batch}, {"sample", LabelFill::sample}},
                 "How often the random labels of --active-min are drawn: once for a batch, or for "
                 "each sample.");
  set.add_choice("lazy", lazy,
                 {{"catch_up", Lazy::catch_up}, {"touched", Lazy::touched}, {"dense", Lazy::dense}},
                 "When adam updates a row without a gradient. catch_up: when the row is next read. "
                 "touched: never. dense: in every batch.");
  set.add("probe", probe,
          "Number of test samples for which every evaluation measures the recall of the hash "
          "tables, off the training clock.")
      .unit("samples")
      .range(0, 1e6);
  set.add("efficiency", efficiency,
          "Share of the device profile's rates that a worker reaches with --cluster sim. 1: a "
          "batch takes the time of its operations and bytes, a floor.")
      .range(0.01, 1);
}

}  // namespace hetsgd
