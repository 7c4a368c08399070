#include "training/constant_guess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/tokens.hpp"

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

const MetricValue* accuracy_among(const std::vector<MetricValue>& metrics) {
  const auto found = std::ranges::find_if(metrics, [](const MetricValue& each) {
    return each.metric->higher_is_better() && each.metric->key() != "auc";
  });
  return found == metrics.end() ? nullptr : &*found;
}

// The tolerances of 2 % and 1 % cover rounding and the noise of a few rows.
bool no_better(double accuracy, double of_guess) { return accuracy <= 1.02 * of_guess; }
bool as_high(double loss, double of_guess) { return loss >= 0.99 * of_guess; }

std::string rise_warning(const CurvePoint& worst, double of_guess) {
  return fmt::format(
      "the training loss rose to {:.3g} before {} samples, {:.3g} times that of a constant guess "
      "({:.4g}); try a smaller --learning-rate, --warmup-epochs or smaller initial weights",
      worst.train_loss, worst.samples_count, worst.train_loss / of_guess, of_guess);
}

std::string collapse_warning(const CurvePoint& last, const MetricValue& accuracy,
                             const ConstantGuess& guess, double accuracy_of_guess) {
  return fmt::format(
      "the model has learnt nothing, or has collapsed: in the last {} evaluations the training "
      "loss ({:.4g} at the end) is that of a constant guess ({:.4g}). Its {} of {:.4g} is not "
      "above the {:.4g} of the guess. Try a smaller --learning-rate or another initialisation",
      kCollapsedPoints, last.train_loss, guess.train_loss, accuracy.metric->key(), accuracy.value,
      accuracy_of_guess);
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

std::vector<std::string> collapse_warnings(const std::vector<CurvePoint>& curve,
                                           const ConstantGuess& guess) {
  std::vector<std::string> warnings;
  std::vector<const CurvePoint*> points;  // points that follow at least one batch
  for (const CurvePoint& point : curve) {
    if (std::isfinite(point.train_loss)) points.push_back(&point);
  }
  if (points.empty() || !(guess.train_loss > 0)) return warnings;
  const CurvePoint& worst = **std::ranges::max_element(
      points, {}, [](const CurvePoint* point) { return point->train_loss; });
  if (worst.train_loss > kHugeRise * guess.train_loss) {
    warnings.push_back(rise_warning(worst, guess.train_loss));
  }
  const MetricValue* const accuracy = accuracy_among(points.back()->metrics);
  const MetricValue* const of_guess = accuracy_among(guess.metrics);
  if (points.size() < kCollapsedPoints || !accuracy || !of_guess) return warnings;
  const bool high = std::all_of(
      points.end() - kCollapsedPoints, points.end(),
      [&](const CurvePoint* point) { return as_high(point->train_loss, guess.train_loss); });
  if (high && no_better(accuracy->value, of_guess->value)) {
    warnings.push_back(collapse_warning(*points.back(), *accuracy, guess, of_guess->value));
  }
  return warnings;
}

}  // namespace hetsgd
