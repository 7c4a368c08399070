// Measuring a model on a test set: all host cores, always off the training clock.
//
// Metrics: loss (mean over all rows; rows without labels add 0), P@k = share of the k top-scored
// labels that are true, mean over rows with labels; accuracy; AUC = rank sum with mid-ranks for
// ties. Sums are formed per chunk of rows and added in chunk order, so the number of threads never
// changes a bit.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "data/dataset.hpp"
#include "model/model.hpp"

namespace hetsgd {

struct Metrics {
  double loss = 0;
  std::optional<double> p1, p3, p5;  // multilabel and multiclass
  std::optional<double> accuracy;    // multiclass and binary
  std::optional<double> auc;         // binary; empty when the test set has one class only
};

// Area under the ROC curve of scores against truth (1 = positive); empty when one class is missing.
std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const std::uint8_t> truth);

class Evaluator {
 public:
  // rows: how many test rows are used (0: all), spread evenly over the file. threads 0: all cores.
  Evaluator(const Model& model, DatasetPtr test, std::uint64_t rows, int threads);
  ~Evaluator();
  Metrics measure(std::span<const float> parameters);
  std::uint64_t rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
