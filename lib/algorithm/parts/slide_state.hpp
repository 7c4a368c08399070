// The state that the workers of slide share: the moments of the model's rows, the count of its
// batches, and the tables over its labels. Also how each worker works on it. The parameters
// themselves are a SharedModel, memory that other workers may read and write meanwhile:
//
//              threads, in place (racy)          sim: read, fn, write
//   select     catch up, then fn on w itself     catch up and copy layer 0's rows; fn; -
//   learn      catching up and Adam on a row     catch up and copy the labels' rows; fn makes
//              as soon as its gradient is due    gradients; catch up and Adam on all rows
//   tables     of w itself                       catch up and copy the layer; fn; -
//
// In sim a batch lands whole at its end, and t counts batches in the order of landing. One worker
// gets the same bits either way. The code that races is in slide_rows_racy.cpp. There no value that
// is read from w becomes an index or a length, except codes, which are below m whatever was read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cluster/endpoint.hpp"
#include "model/labels/sampled_pass.hpp"
#include "optimizer/row_adam.hpp"

namespace hetsgd {

// The options of slide, besides those of its hash tables (model/labels/hashed_labels.hpp).
struct SlideOptions {
  ActiveOptions active;
  Lazy lazy = Lazy::catch_up;
  std::uint32_t probe = 256;  // test samples to measure recall on
  double efficiency = 1;      // share of the profile's rates that a simulated worker reaches

  void declare(OptionSet& set);
};

// One per run. Thread-safe, except for the rows of moments, which workers step without a lock.
class SlideState {
 public:
  // monitor: any worker's. Throws what SampledShape throws.
  SlideState(const Model& model, const SlideOptions& options, const OptimizerOptions& optimizer,
             std::uint64_t seed, int workers, std::unique_ptr<Monitor> monitor);

  const SampledShape& shape() const { return shape_; }
  // While no worker steps. Tables are not saved: they are due when the state is loaded.
  void fields(Archive& fields);

  AdamClock clock;
  RowAdam layer0, bias0, rows;  // rows: of the output layer, with its biases

  // --- tables ------------------------------------------------------------------------------------
  struct Rehash {
    RehashSchedule::Rehash schedule;
    std::shared_ptr<const LabelHash> hash;
  };
  // A value if the tables are due, at the start or by the schedule, and no other worker builds
  // them: the caller must build and publish them. Meanwhile the others use the old tables; without
  // other workers only the caller holds these.
  std::optional<Rehash> begin_rehash();
  // Builds the index of W [labels x hidden].
  LabelIndex make_index(const Rehash& rehash, const float* W, HostCores& cores) const;
  void publish(LabelIndex index);
  // The newest tables; waits for the first ones. Null if all labels are active.
  std::shared_ptr<const LabelIndex> index();

  // --- counts of what the tables retrieved -------------------------------------------------------
  void count(const Retrieval& retrieval);
  Retrieval take_retrieval();

  // Counts a selection of labels and returns the number of selections so far. With one worker this
  // is t; with several it is unique to the batch, so that each batch draws labels of its own.
  std::uint64_t count_selection() { return selections_.fetch_add(1) + 1; }
  // True for the one worker that must bring all rows up to date before an evaluation.
  bool begin_catch_up() { return !catching_up_.exchange(true); }
  void end_catch_up() { catching_up_ = false; }

 private:
  const SampledShape shape_;
  const bool all_active_;
  const HashedLabels hashing_;
  const std::uint64_t seed_;
  const int workers_;
  std::unique_ptr<Monitor> monitor_;
  // Guarded by monitor_:
  RehashSchedule schedule_;
  std::shared_ptr<const LabelIndex> index_;
  std::shared_ptr<const LabelHash> hash_;  // the newest functions
  bool rehashing_ = false;

  std::mutex retrieval_mutex_;
  Retrieval retrieval_;
  std::atomic<std::uint64_t> selections_{0};
  std::atomic<bool> catching_up_{false};
};

// A worker's calls on the rows of the shared model w [n]: they bring rows up to date before they
// read them, and move them by the worker's gradients.
class SlideRows {
 public:
  // Both outlive it.
  SlideRows(SlideState& state, SampledPass& pass) : state_(state), pass_(pass) {}

  // In place: tables of w's rows, and the two passes of a batch on w itself.
  LabelIndex index_in_place(const SlideState::Rehash& rehash, std::span<float> w);
  void select_in_place(const Batch& batch, const LabelIndex* index, std::span<float> w);
  double learn_in_place(const Batch& batch, double learning_rate, std::span<float> w);

  // The same in parts: read, the pass on what was read, and write.
  void read_features(const Batch& batch, std::span<float> w);
  void select(const Batch& batch, const LabelIndex* index);
  void read_labels(std::span<float> w);
  double learn(const Batch& batch);
  void write(double learning_rate, std::span<float> w);

  // Brings all rows up to date before others read w; and the work of that.
  void catch_up_all(std::span<float> w);
  Work catch_up_work() const;

 private:
  // fn(row) of layer 0's touched rows on all cores; prefetches the rows that come next.
  template <class Fn>
  void for_features(std::span<const float> w, const Fn& fn) const;
  void catch_up_features(const Batch& batch, std::span<float> w);
  // Makes the steps of layer 0, and in `dense` those of all rows without a gradient, and ends the
  // batch.
  void finish(const AdamDebts& debts, const AdamBatch& step, std::span<float> w);

  SlideState& state_;
  SampledPass& pass_;
  std::uint64_t selection_ = 0;  // number of the batch, among all workers
  // sim: layer 0 with its bias; rows of active labels with their biases [. x (H + 1)]; gradients.
  std::vector<float> own_layer0_, own_rows_, row_gradient_;
};

}  // namespace hetsgd
