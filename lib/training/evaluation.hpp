// Measuring a model on a test set, always off the training clock: on a GPU where the run has one,
// else on all host cores.
//
// Rows are measured chunk by chunk, and a chunk's labels block by block. So the scores of a whole
// chunk or test set are never in memory at once. There are two exceptions. A model that ranks in
// memory (Model::ranks_in_memory) keeps the scores of a chunk. Metrics of a single score (AUC) keep
// one number per test row. On a GPU, in full precision on a device of its own, the next chunk is
// gathered and sent while the GPU works on the one before. Between two measurements the GPU's
// memory belongs to the workers. If it has no room left, the host measures:
//
//   GPU ── MemoryError, a warning ──> host, for the rest of the run
//
// The metrics are those that apply to the model's data (model/metric.hpp). Their sums are formed
// per chunk of rows and added in chunk order, so the number of threads never changes a bit. Chunks
// of the GPU are larger than those of the host, so results on the two may differ by rounding.
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

// The key (metric.hpp) of the most informative metric for such data. Tuning optimises it if no
// other metric is named.
std::string first_metric_of(const Dataset& data);
// Checks that runs on such data measure `metric`; `text` names it in messages. `data`: as the model
// has them, if it is known. Throws Error(usage), opening with `place`, if they do not, or if the
// test rows do not define it (AUC without both classes).
void check_measured(const std::string& metric, const DataShape& data, const Dataset& test,
                    const std::string& place, const std::string& text);

struct EvaluatorOptions {
  std::uint64_t rows = 0;  // how many test rows are used (0: all), spread evenly over the file
  int threads = 0;         // 0: all cores
  int gpu = -1;            // -1: none
  // Before a measurement a model's statistics (BasicModel::statistics) are estimated from rows of
  // these data, spread evenly over them, on the device that measures. Null: the statistics stay
  // empty, and the host measures a model that needs some.
  DatasetPtr statistics_of{};
  std::function<void(const std::string&)> warn{};  // called when the GPU has no room; may be empty
  // Called between chunks of rows and between parts of a network, on any thread; its exception ends
  // the measurement. May be empty.
  std::function<void()> check{};
};

// One per process that measures; its scratch memory lasts as long as it does. Not thread-safe:
// one measurement at a time, which starts and ends its own threads.
class Evaluator {
 public:
  // The model must outlive the evaluator. The rows are chosen here, once, so that all points of a
  // curve, and of curves with the same options, are measured on the same ones. A GPU's device is
  // made at the first measurement.
  Evaluator(const Model& model, DatasetPtr test, EvaluatorOptions options);
  ~Evaluator();
  // Returns the metrics that the test rows define, the most informative first, test_loss last.
  // `parameters` are in host memory, [model.parameters()] (checked). To be called only while the
  // world is stopped, because it takes time on the GPU. `rows` holds a table that is not part of
  // the model; then the host measures.
  std::vector<MetricValue> measure(std::span<const float> parameters,
                                   const RowSource* rows = nullptr);
  // The categories in the measured rows, distinct and ascending.
  std::vector<Index> categories() const;
  std::uint64_t rows() const;
  // Where the next measurement takes place: "cpu", "cuda:0 (NVIDIA H200)".
  const std::string& device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
