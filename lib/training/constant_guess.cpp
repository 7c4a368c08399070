#include "training/constant_guess.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/sequences.hpp"

namespace hetsgd {
namespace {

constexpr std::uint64_t kRowsTogether = 1024;

// The k labels that most rows have, or the k tokens that are most often targets, the most frequent
// first.
std::vector<std::uint32_t> most_frequent(const Dataset& data, std::size_t k) {
  std::vector<std::uint64_t> count(std::max<std::size_t>(data.label_count, k));
  for (const Index label : data.targets.index) ++count[label];
  for (std::uint64_t row = 0; row < data.tokens.rows(); ++row) {
    for (const std::uint16_t target : targets_of(data, row)) ++count[target];
  }
  std::vector<std::uint32_t> labels(count.size());
  std::iota(labels.begin(), labels.end(), 0U);
  std::ranges::partial_sort(labels, labels.begin() + static_cast<std::ptrdiff_t>(k),
                            [&](std::uint32_t a, std::uint32_t b) {
                              return count[a] != count[b] ? count[a] > count[b] : a < b;
                            });
  labels.resize(k);
  return labels;
}

// The score whose sigmoid is the share of positive rows.
float base_score(const Dataset& data) {
  const auto positive = static_cast<double>(data.targets.index.size());
  const double negative = static_cast<double>(data.rows()) - positive;
  return static_cast<float>(std::log(positive) - std::log(negative));
}

// The value of a metric if all rows, or all targets of rows of tokens, get the same top labels
// `top` and the same score `score`.
std::optional<double> measured(const Metric& metric, const Dataset& data, double mean_loss,
                               const std::vector<std::uint32_t>& top, float score) {
  MetricSums sums{};
  const bool tokens = data.task == Task::tokens;
  std::vector<std::uint32_t> tops, target;
  std::vector<float> scores;
  std::vector<std::uint8_t> truth;
  Batch batch;
  for (std::uint64_t first = 0; first < data.rows(); first += kRowsTogether) {
    std::vector<Index>& rows = batch.reset(data);
    rows.resize(std::min(kRowsTogether, data.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<Index>(first));
    tops.clear();
    target.clear();
    for (std::size_t i = 0; tokens && i < rows.size(); ++i) {
      const auto row = targets_of(data, rows[i]);
      target.insert(target.end(), row.begin(), row.end());
    }
    const std::size_t guesses = tokens ? target.size() : rows.size();
    for (std::size_t i = 0; i < guesses; ++i) tops.insert(tops.end(), top.begin(), top.end());
    const std::size_t begin = scores.size();
    if (metric.needs_score()) {
      for (const Index row : rows) truth.push_back(data.labels(row).empty() ? 0 : 1);
      scores.resize(truth.size(), score);
    }
    metric.add(batch,
               {.k = top.size(),
                .top = tops,
                .score = std::span(scores).subspan(begin),
                .truth = std::span(truth).subspan(begin),
                .target = target},
               mean_loss * static_cast<double>(guesses), sums);
  }
  return metric.value(sums, static_cast<double>(data.rows()), {.score = scores, .truth = truth});
}

std::string rise_warning(const CurvePoint& worst, double of_guess) {
  return fmt::format(
      "the training loss rose to {:.3g} before {} samples, {:.3g} times that of a constant guess "
      "({:.4g}); try a smaller --learning-rate, --warmup-epochs or smaller initial weights",
      worst.train_loss, worst.samples_count, worst.train_loss / of_guess, of_guess);
}

// The first of the metrics that improve upwards, and the loss.
std::vector<MetricValue> deciding(const std::vector<MetricValue>& metrics) {
  std::vector<MetricValue> result;
  for (const MetricValue& each : metrics) {
    const bool first = each.metric->higher_is_better() && result.empty();
    if (first || each.metric->key() == kTestLoss) result.push_back(each);
  }
  return result;
}

// A guess of the base rates has the best loss that ignores the features, so a loss must be below
// it. An accuracy may be the same: where one label is rare, good models predict the other one, too.
bool is_beaten(const MetricValue& value, double of_guess) {
  if (value.metric->higher_is_better()) return value.value >= of_guess;
  return value.value < of_guess;
}

std::string end_warning(const std::vector<MetricValue>& last, const ConstantGuess& guess) {
  std::vector<std::string> worse, numbers;
  for (const MetricValue& each : deciding(last)) {
    const std::string key = each.metric->key();
    const std::optional<double> of_guess = metric_of({.metrics = guess.metrics}, key);
    if (!of_guess || !std::isfinite(each.value)) continue;
    if (!is_beaten(each, *of_guess)) worse.push_back(key);
    numbers.push_back(fmt::format("{} {:.4g} (guess {:.4g})", key, each.value, *of_guess));
  }
  if (worse.empty()) return "";
  return fmt::format(
      "at its end this run is no better than a constant guess in {}: {}. Try a smaller "
      "--learning-rate, a longer run or another initialisation",
      fmt::join(worse, " and "), fmt::join(numbers, ", "));
}

}  // namespace

ConstantGuess constant_guess(const BasicObjective<float>& objective, const DataShape& data,
                             const Dataset& train, const Dataset& test) {
  const std::vector<const Metric*> wanted = metrics_of(data);
  std::size_t k = 0;
  for (const Metric* metric : wanted) k = std::max(k, metric->best_labels());
  const std::vector<std::uint32_t> top = most_frequent(test, k);
  const double loss = objective.constant_loss(test);
  ConstantGuess guess;
  for (const Metric* metric : wanted) {
    const auto value = measured(*metric, test, loss, top, base_score(test));
    if (value) guess.metrics.push_back({metric, *value});
  }
  guess.train_loss = objective.constant_loss(train.whole ? test : train);
  return guess;
}

std::vector<std::string> guess_warnings(const std::vector<CurvePoint>& curve,
                                        const ConstantGuess& guess) {
  std::vector<std::string> warnings;
  const CurvePoint* worst = nullptr;  // of the points that follow at least one batch
  for (const CurvePoint& point : curve) {
    const bool known = std::isfinite(point.train_loss);
    if (known && (!worst || point.train_loss > worst->train_loss)) worst = &point;
  }
  if (worst && guess.train_loss > 0 && worst->train_loss > kHugeRise * guess.train_loss) {
    warnings.push_back(rise_warning(*worst, guess.train_loss));
  }
  if (curve.empty() || curve.back().samples_count == 0) return warnings;
  if (std::string text = end_warning(curve.back().metrics, guess); !text.empty()) {
    warnings.push_back(std::move(text));
  }
  return warnings;
}

}  // namespace hetsgd
