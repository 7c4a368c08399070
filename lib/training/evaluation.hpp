// Measuring a model on a test set, always off the training clock: on a GPU where the run has one,
// else on all host cores.
//
// Rows are measured chunk by chunk, and in each block of labels by block: neither the scores of the
// test set nor those of a chunk are ever all in memory (but a linear model's, chunk by chunk). On a
// GPU, in full precision on a device of its own, the next chunk is gathered and sent while the GPU
// works on the one before. Between two measurements the GPU's memory is the workers'. Where it has
// no room left the host measures.
//
// Metrics: loss (mean over all rows; rows without labels add 0), P@k = share of the k top-scored
// labels that are true, mean over rows with labels; accuracy; AUC = rank sum with mid-ranks for
// ties. Sums are formed per chunk of rows and added in chunk order, so the number of threads never
// changes a bit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "model/model.hpp"

namespace hetsgd {

struct Metrics {
  double loss = 0;
  std::optional<double> p1, p3, p5;  // multilabel and multiclass
  std::optional<double> accuracy;    // multiclass and binary
  std::optional<double> auc;         // binary; empty when the test set has one class only
};

// The metrics that the curve of a run has, by their names in the result, the most telling first:
// what a target and the goal of a tuning may name. `labels`: of the data.
std::vector<std::string> metrics_of(Task task, std::uint64_t labels);
// Errors: usage, opening with `place`: `metric`, which `text` names, is none of them, or the test
// rows do not show it (auc without both classes).
void check_measured(const std::string& metric, const Dataset& train, const Dataset& test,
                    const std::string& place, const std::string& text);

// Area under the ROC curve of scores against truth (1 = positive); empty when one class is missing.
std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const std::uint8_t> truth);

struct EvaluatorOptions {
  std::uint64_t rows = 0;  // how many test rows are used (0: all), spread evenly over the file
  int threads = 0;         // 0: all cores
  int gpu = -1;            // -1: none
  std::function<void(const std::string&)> warn{};  // the GPU has no room; may be empty
};

class Evaluator {
 public:
  Evaluator(const Model& model, DatasetPtr test, EvaluatorOptions options);
  ~Evaluator();
  // `parameters` in host memory. Only while the world is stopped: it takes its time on the GPU.
  Metrics measure(std::span<const float> parameters);
  std::uint64_t rows() const;
  // Where the next measurement takes place: "cpu", "cuda:0 (NVIDIA H200)".
  const std::string& device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
