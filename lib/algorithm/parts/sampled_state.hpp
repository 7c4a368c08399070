// What the workers of slide have together: the moments of the model's rows, the count of its
// batches, and the tables over its labels. The parameters themselves are a SharedModel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "algorithm/parts/row_adam.hpp"
#include "cluster/endpoint.hpp"
#include "core/options.hpp"
#include "model/labels/hashed_labels.hpp"
#include "model/labels/label_tables.hpp"
#include "model/model.hpp"

namespace hetsgd {

// The options of slide, beside those of its hash tables (model/labels/hashed_labels.hpp).

struct SampledOptions {
  ActiveOptions active;
  Lazy lazy = Lazy::catch_up;
  std::uint32_t probe = 256;  // test samples on which recall is measured

  void declare(OptionSet& set);

 private:
  void declare_active(OptionSet& set);
};

// Of an MLP with one hidden layer: its widths, and where its blocks begin; layer 0's weight is at 0.
struct SampledShape {
  // Errors: usage, another model or objective.
  explicit SampledShape(const Model& model);

  std::size_t features, hidden, labels;
  std::size_t bias0, weight, bias;
};

// Functions and tables of one rehash. Immutable.
struct LabelIndex {
  std::shared_ptr<const LabelHash> hash;
  LabelTables tables;
};

// One per run. Thread-safe, but for the rows of moments, which workers step without a lock.
class SampledState {
 public:
  // monitor: one of any worker's. Errors: as SampledShape.
  SampledState(const Model& model, const SampledOptions& options, const OptimizerOptions& optimizer,
               std::uint64_t seed, int workers, std::unique_ptr<Monitor> monitor);

  const SampledOptions& options() const { return options_; }
  const HashedLabels& hashing() const { return hashing_; }
  const SampledShape& shape() const { return shape_; }
  std::uint64_t seed() const { return seed_; }

  AdamClock clock;
  RowAdam layer0, bias0, rows, bias;  // rows, bias: of the output layer

  // --- tables ------------------------------------------------------------------------------------
  struct Rehash {
    std::uint32_t number = 0;  // 0, 1, ...
    bool rebuilt = false;      // takes new functions
    std::shared_ptr<const LabelHash> hash = nullptr;
  };
  // The tables are to be made anew, at the start or by the schedule, and nobody does: the caller
  // must, and publishes them. Until then the others go on with the old ones; where there are no
  // others, nothing holds on to these but the caller.
  std::optional<Rehash> begin_rehash();
  void publish(const Rehash& rehash, LabelTables tables);
  // The newest tables; waits for the first ones. Null where all labels are active.
  std::shared_ptr<const LabelIndex> index();

  // --- what the tables have led to ---------------------------------------------------------------
  void count(const Retrieval& retrieval);
  Retrieval take_retrieval();

  // Batches that samples were selected for, with this one: of one worker t, of several a number that
  // no other batch has, so that each draws labels of its own.
  std::uint64_t count_selection() { return selections_.fetch_add(1) + 1; }
  // True for the one worker that shall bring all rows up to date before an evaluation.
  bool begin_catch_up() { return !catching_up_.exchange(true); }
  void end_catch_up() { catching_up_ = false; }

 private:
  const SampledShape shape_;
  const SampledOptions options_;
  const HashedLabels hashing_;
  const std::uint64_t seed_;
  const int workers_;
  std::unique_ptr<Monitor> monitor_;
  // Guarded by monitor_:
  std::shared_ptr<const LabelIndex> index_;
  std::shared_ptr<const LabelHash> hash_;  // the newest functions
  double next_rehash_ = 0;
  std::uint32_t rehashes_ = 0, generation_ = 0;
  bool rehashing_ = false;

  std::mutex retrieval_mutex_;
  Retrieval retrieval_;
  std::atomic<std::uint64_t> selections_{0};
  std::atomic<bool> catching_up_{false};
};

}  // namespace hetsgd
