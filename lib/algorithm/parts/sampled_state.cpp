#include "algorithm/parts/sampled_state.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

namespace {

const Layout& one_hidden_layer(const Model& model) {
  const Layout& layout = model.layout();
  const bool fits = layout.blocks.size() == 4 && layout.blocks[0].name == "layer0.weight" &&
                    layout.blocks[2].name == "layer1.weight" && layout.blocks[2].rows > 1 &&
                    model.data().task != Task::binary;
  if (!fits) {
    throw with_hint(usage_error("--model: found one without exactly one hidden layer below a "
                                "softmax, expected an mlp of labels, as slide samples them"),
                    "use --model mlp --hidden 128, and data with several labels");
  }
  if (model.hashed_labels() == nullptr) {
    throw with_hint(usage_error("--objective: found {}, expected hashed with --algorithm slide",
                                layout.blocks[2].row_sparse() ? "sampled" : "full"),
                    "leave it out: hashed is the default of slide");
  }
  return layout;
}

}  // namespace

SampledShape::SampledShape(const Model& model)
    : features(one_hidden_layer(model).blocks[0].rows),
      hidden(model.layout().blocks[0].cols),
      labels(model.layout().blocks[2].rows),
      bias0(model.layout().blocks[1].offset),
      weight(model.layout().blocks[2].offset),
      bias(model.layout().blocks[3].offset) {}

SampledState::SampledState(const Model& model, const SampledOptions& options,
                           const OptimizerOptions& optimizer, std::uint64_t seed, int workers,
                           std::unique_ptr<Monitor> monitor)
    : clock(optimizer, options.lazy),
      layer0(clock, SampledShape(model).features, SampledShape(model).hidden),
      bias0(clock, 1, layer0.cols()),
      rows(clock, SampledShape(model).labels, layer0.cols()),
      bias(clock, rows.rows(), 1),
      shape_(model),
      options_(options),
      hashing_(*model.hashed_labels()),
      seed_(seed),
      workers_(workers),
      monitor_(std::move(monitor)) {}

std::optional<SampledState::Rehash> SampledState::begin_rehash() {
  if (options_.active.all) return std::nullopt;
  const std::uint32_t complete = clock.complete();
  const std::lock_guard lock(*monitor_);
  if (rehashing_ || complete < next_rehash_) return std::nullopt;
  rehashing_ = true;
  Rehash rehash{.number = rehashes_};
  const std::uint32_t generation = complete / hashing_.rebuild;
  rehash.rebuilt = !hash_ || generation > generation_;
  if (rehash.rebuilt) {
    generation_ = generation;
    hash_ = std::make_shared<const LabelHash>(hashing_.hash, shape_.hidden, seed_, generation);
  }
  rehash.hash = hash_;
  if (workers_ == 1) index_.reset();
  return rehash;
}

void SampledState::publish(const Rehash& rehash, LabelTables tables) {
  auto index = std::make_shared<const LabelIndex>(LabelIndex{rehash.hash, std::move(tables)});
  const std::lock_guard lock(*monitor_);
  index_ = std::move(index);
  next_rehash_ += hashing_.rehash;
  ++rehashes_;
  rehashing_ = false;
  monitor_->notify_all();
}

std::shared_ptr<const LabelIndex> SampledState::index() {
  if (options_.active.all) return nullptr;
  const std::lock_guard lock(*monitor_);
  monitor_->wait([this] { return index_ != nullptr; }, "the first hash tables");
  return index_;
}

void SampledState::count(const Retrieval& retrieval) {
  const std::lock_guard lock(retrieval_mutex_);
  retrieval_ += retrieval;
}

Retrieval SampledState::take_retrieval() {
  const std::lock_guard lock(retrieval_mutex_);
  return std::exchange(retrieval_, {});
}

void SampledOptions::declare(OptionSet& set) {
  declare_active(set);
  set.add_choice("lazy", lazy,
                 {{"catch_up", Lazy::catch_up}, {"touched", Lazy::touched}, {"dense", Lazy::dense}},
                 "what adam does to rows without a gradient: moves them when they are next read, "
                 "nothing, moves them in every batch");
  set.add("probe", probe,
          "test samples whose best labels are looked for in the tables at every evaluation, off "
          "the clock")
      .unit("samples")
      .range(0, 1e6);
}

void SampledOptions::declare_active(OptionSet& set) {
  set.add_choice("active", active.all, {{"tables", false}, {"all", true}},
                 "labels that a sample scores: those that tables lead to, or all");
  set.add("active_min", active.least, "active labels of a sample at least, filled at random")
      .unit("labels")
      .range(0, 4e9);
  set.add_choice("fill", active.fill, {{"batch", LabelFill::batch}, {"sample", LabelFill::sample}},
                 "random labels are drawn once for a batch, or for each sample");
}

}  // namespace hetsgd
