// Metrics: how good a model is on the test set. Each metric is an object that knows its key in the
// result, whether more is better, and which scores it needs.
//
// A metric is a ratio of sums over rows or targets, or a function of all scores. Sums are formed
// per chunk of rows and added in chunk order, so that the number of threads never changes a bit.
//
// A measurement (training/evaluation.cpp) goes through each metric of the data like this:
//
//   which rows' scores?     per chunk, on any thread          once, on the sums of all chunks
//   best_labels(),    -->   add(batch, its scores, its  -->   value(sums, rows, all scores)
//   needs_score()           loss, the chunk's sums)
//
// Metrics are const and shared, so add() may run for several chunks at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"

namespace hetsgd {

// Some rows with their scores: the rows of one chunk, or of the whole test set. Refers to host
// memory of the measurement. A row has as many labels in `top` as the most demanding metric needs;
// a metric that needs fewer takes the first of them. A row of tokens has several targets: `target`
// lists those of all rows, and `top` has the best tokens of each target in the same order.
struct ScoredRows {
  std::size_t k = 0;                      // 0: not asked for
  std::span<const std::uint32_t> top{};   // [rows x k] best labels, the best first
  std::span<const float> score{};         // [rows], of models with one score per row, if asked for
  std::span<const std::uint8_t> truth{};  // [rows] beside them: 1 = the row has a label
  std::span<const std::uint32_t> target{};  // [targets] of rows of tokens: the tokens to predict
};

// A metric's sums over rows, zero at first. Each metric defines what its sums mean.
using MetricSums = std::array<double, 2>;

class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string key() const = 0;  // in the result and in targets: "p1"
  // True: a higher value is better, and the metric is a share, from 0 to 1.
  virtual bool higher_is_better() const { return true; }
  // Whether the metric applies to models of such data.
  virtual bool applies(const DataShape& data) const = 0;
  // Why these test rows cannot show the metric, for example "all test rows are of one class,
  // expected both"; empty: they can.
  virtual std::string why_not(const DatasetTotals& test) const;

  // The scores that it needs: the k best labels of each row (0: none), or the row's only score.
  virtual std::size_t best_labels() const { return 0; }
  virtual bool needs_score() const { return false; }

  // sums += the contribution of these rows. `batch` holds the rows of a chunk, `loss` the sum of
  // their losses.
  virtual void add(const Batch& batch, const ScoredRows& rows, double loss,
                   MetricSums& sums) const = 0;
  // The metric from the sums over `n` rows and the scores of all of them (`all` is empty if no
  // metric needs them). Returns none if these rows cannot show the metric.
  virtual std::optional<double> value(const MetricSums& sums, double n,
                                      const ScoredRows& all) const = 0;
};

// All metrics, the most informative first; the loss comes last. Metrics with the same key apply to
// different data.
const std::vector<const Metric*>& metrics();
// The metrics of models of such data.
std::vector<const Metric*> metrics_of(const DataShape& data);
// The keys of all metrics, and "train_loss", which training itself measures.
const std::vector<std::string>& metric_names();
// Whether higher values of this metric are better. The metric must exist.
bool higher_is_better(std::string_view metric);

// Key of the objective's mean over all rows, or over all targets of rows of tokens: every
// measurement has it.
inline constexpr const char* kTestLoss = "test_loss";
inline constexpr const char* kTrainLoss = "train_loss";

struct MetricValue {
  const Metric* metric = nullptr;
  double value = 0;
};

// Area under the ROC curve of scores against truth (1 = positive), as a rank sum with mid-ranks for
// ties (the Mann-Whitney U statistic over positives x negatives); empty when one class is missing.
// Both have one entry per row. n log n for n rows.
std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const std::uint8_t> truth);

}  // namespace hetsgd
