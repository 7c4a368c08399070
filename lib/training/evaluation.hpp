// Measuring a model on a test set, always off the training clock: on a GPU where the run has one,
// else on all host cores.
//
// Rows are measured chunk by chunk, and a chunk's labels block by block: neither the scores of the
// test set nor those of a chunk are ever all in memory. Two exceptions: a model that ranks in
// memory (Model::ranks_in_memory) has those of a chunk, and metrics of a single score (AUC) keep
// one number per test row. On a GPU, in full precision on a device of its own, the next chunk is
// gathered and sent while the GPU works on the one before. Between two measurements the GPU's
// memory is the workers'. Where it has no room left the host measures:
//
//   GPU ── MemoryError, a warning ──> host, for the rest of the run
//
// What is measured are the metrics that the model's data have (model/metric.hpp). Their sums are
// formed per chunk of rows and added in chunk order, so the number of threads never changes a bit.
// Chunks of the GPU are larger than those of the host, so the two places may differ by rounding.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "model/metric.hpp"
#include "model/model.hpp"
#include "table/shard.hpp"

namespace hetsgd {

// The key (metric.hpp) of the metric that says most about such data: the goal of a tuning that
// names none.
std::string first_metric_of(const Dataset& data);
// Errors: usage, opening with `place`: `metric`, which `text` names, is none that runs on these
// data measure, or the test rows do not show it (auc without both classes).
void check_measured(const std::string& metric, const Dataset& train, const Dataset& test,
                    const std::string& place, const std::string& text);

struct EvaluatorOptions {
  std::uint64_t rows = 0;  // how many test rows are used (0: all), spread evenly over the file
  int threads = 0;         // 0: all cores
  int gpu = -1;            // -1: none; nor for a model with statistics
  // Of whose rows, spread evenly over them, a model's statistics are made before a measurement
  // (BasicModel::statistics); null: they stay empty.
  DatasetPtr statistics_of{};
  std::function<void(const std::string&)> warn{};  // the GPU has no room; may be empty
  // Asked between chunks of rows: what it throws ends a measurement. Any thread; may be empty.
  std::function<void()> check{};
};

// One per process that measures; its threads and scratch memory last as long as it does. Not
// thread-safe: one measurement at a time.
class Evaluator {
 public:
  // The model must outlive it. The rows are chosen here, once, so that all points of a curve, and
  // of curves with the same options, are measured on the same ones. A GPU's device is made at the
  // first measurement.
  Evaluator(const Model& model, DatasetPtr test, EvaluatorOptions options);
  ~Evaluator();
  // Those metrics that the test rows show, the most telling first, test_loss last. `parameters` in
  // host memory, [model.parameters()] (checked). Only while the world is stopped: it takes its time
  // on the GPU. rows: of a model whose table lies elsewhere; then it measures on the host.
  std::vector<MetricValue> measure(std::span<const float> parameters,
                                   const RowSource* rows = nullptr);
  // The categories of the rows that are measured: distinct, ascending.
  std::vector<Index> categories() const;
  std::uint64_t rows() const;
  // Where the next measurement takes place: "cpu", "cuda:0 (NVIDIA H200)".
  const std::string& device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
