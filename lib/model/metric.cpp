#include "model/metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/sort/spreadsort/integer_sort.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.hpp"

namespace hetsgd {

namespace {

// The share of the k top-scored labels that are true, mean over all rows. A row without labels is a
// miss, as in the evaluation that the XC repository publishes (pyxclib, xc_metrics.py).
class PrecisionAtK final : public Metric {
 public:
  explicit PrecisionAtK(std::size_t k) : k_(k) {}
  std::string key() const override { return fmt::format("p{}", k_); }
  bool applies(const DataShape& data) const override {
    return data.task != Task::binary && data.task != Task::tokens && data.label_count >= k_;
  }
  std::string why_not(const DatasetTotals& test) const override {
    return test.labels == 0 ? fmt::format("no test row has a label, expected some for {}", key())
                            : "";
  }
  std::size_t best_labels() const override { return k_; }
  void add(const Batch& batch, const ScoredRows& rows, double, MetricSums& sums) const override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto labels = batch.data().labels(batch.rows()[i]);
      std::size_t hits = 0;
      for (const std::uint32_t label : rows.top.subspan(i * rows.k, k_)) {
        hits += std::ranges::binary_search(labels, label) ? 1 : 0;
      }
      sums[0] += static_cast<double>(hits) / static_cast<double>(k_);
    }
  }
  std::optional<double> value(const MetricSums& sums, double n, const ScoredRows&) const override {
    return sums[0] / n;
  }

 private:
  std::size_t k_;
};

// The share of all rows whose best label is true.
class MulticlassAccuracy final : public Metric {
 public:
  std::string key() const override { return "accuracy"; }
  bool applies(const DataShape& data) const override { return data.task == Task::multiclass; }
  std::size_t best_labels() const override { return 1; }
  void add(const Batch& batch, const ScoredRows& rows, double, MetricSums& sums) const override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto labels = batch.data().labels(batch.rows()[i]);
      sums[0] += std::ranges::binary_search(labels, rows.top[i * rows.k]) ? 1 : 0;
    }
  }
  std::optional<double> value(const MetricSums& sums, double n, const ScoredRows&) const override {
    return sums[0] / n;
  }
};

// The share of all targets that are the best token.
class TokenAccuracy final : public Metric {
 public:
  std::string key() const override { return "accuracy"; }
  bool applies(const DataShape& data) const override { return data.task == Task::tokens; }
  std::size_t best_labels() const override { return 1; }
  void add(const Batch&, const ScoredRows& rows, double, MetricSums& sums) const override {
    for (std::size_t i = 0; i < rows.target.size(); ++i) {
      sums[0] += rows.top[i * rows.k] == rows.target[i] ? 1 : 0;
    }
    sums[1] += static_cast<double>(rows.target.size());
  }
  std::optional<double> value(const MetricSums& sums, double, const ScoredRows&) const override {
    if (sums[1] == 0) return std::nullopt;
    return sums[0] / sums[1];
  }
};

// The exponential of the mean loss per target: among how many equally likely tokens the model
// chooses.
class Perplexity final : public Metric {
 public:
  std::string key() const override { return "perplexity"; }
  bool higher_is_better() const override { return false; }
  bool applies(const DataShape& data) const override { return data.task == Task::tokens; }
  void add(const Batch&, const ScoredRows& rows, double loss, MetricSums& sums) const override {
    sums[0] += loss;
    sums[1] += static_cast<double>(rows.target.size());
  }
  std::optional<double> value(const MetricSums& sums, double, const ScoredRows&) const override {
    if (sums[1] == 0) return std::nullopt;
    return std::exp(sums[0] / sums[1]);
  }
};

// The loss of all targets in bits, over the bytes of text that they cover. So models of characters,
// bytes and words can be compared. Models that predict masked tokens alone cover no text.
class BitsPerByte final : public Metric {
 public:
  std::string key() const override { return "bits_per_byte"; }
  bool higher_is_better() const override { return false; }
  bool applies(const DataShape& data) const override {
    return data.task == Task::tokens && !data.masked_tokens;
  }
  std::string why_not(const DatasetTotals& test) const override {
    return test.bytes == 0 ? "the test rows are synthetic, expected a text for bits_per_byte" : "";
  }
  void add(const Batch& batch, const ScoredRows&, double loss, MetricSums& sums) const override {
    sums[0] += loss;
    for (const Index row : batch.rows()) sums[1] += batch.data().tokens.bytes[row];
  }
  std::optional<double> value(const MetricSums& sums, double, const ScoredRows&) const override {
    if (sums[1] == 0) return std::nullopt;
    return sums[0] / (std::numbers::ln2 * sums[1]);
  }
};

// The share of all rows whose score has the right sign.
class BinaryAccuracy final : public Metric {
 public:
  std::string key() const override { return "accuracy"; }
  explicit BinaryAccuracy(bool fields) : fields_(fields) {}
  bool applies(const DataShape& data) const override {
    return data.task == Task::binary && (data.fields() > 0) == fields_;
  }
  bool needs_score() const override { return true; }
  void add(const Batch&, const ScoredRows& rows, double, MetricSums& sums) const override {
    for (std::size_t i = 0; i < rows.score.size(); ++i) {
      sums[0] += (rows.score[i] > 0) == (rows.truth[i] == 1) ? 1 : 0;
    }
  }
  std::optional<double> value(const MetricSums& sums, double n, const ScoredRows&) const override {
    return sums[0] / n;
  }

 private:
  bool fields_;  // of click-through data, where it says little: few rows are positive
};

// The mean of the predicted probabilities over the share of positive rows: 1 is right, above 1
// predicts too many clicks (He and others, Practical Lessons from Predicting Clicks on Ads at
// Facebook, ADKDD 2014, section 2). Neither higher nor lower is better, so its best value is the
// lowest.
class Calibration final : public Metric {
 public:
  std::string key() const override { return "calibration"; }
  bool higher_is_better() const override { return false; }
  bool applies(const DataShape& data) const override {
    return data.task == Task::binary && data.fields() > 0;
  }
  std::string why_not(const DatasetTotals& test) const override {
    return test.labels == 0 ? "no test row is positive, expected some for calibration" : "";
  }
  bool needs_score() const override { return true; }
  void add(const Batch&, const ScoredRows& rows, double, MetricSums& sums) const override {
    for (std::size_t i = 0; i < rows.score.size(); ++i) {
      sums[0] += 1 / (1 + std::exp(-static_cast<double>(rows.score[i])));
      sums[1] += rows.truth[i];
    }
  }
  std::optional<double> value(const MetricSums& sums, double, const ScoredRows&) const override {
    if (sums[1] == 0) return std::nullopt;
    return sums[0] / sums[1];
  }
};

class Auc final : public Metric {
 public:
  std::string key() const override { return "auc"; }
  bool applies(const DataShape& data) const override { return data.task == Task::binary; }
  std::string why_not(const DatasetTotals& test) const override {
    return test.labels == 0 || test.labels == test.rows
               ? "all test rows are of one class, expected both for auc"
               : "";
  }
  bool needs_score() const override { return true; }
  void add(const Batch&, const ScoredRows&, double, MetricSums&) const override {}
  std::optional<double> value(const MetricSums&, double, const ScoredRows& all) const override {
    return area_under_curve(all.score, all.truth);
  }
};

// The mean of the objective over all rows, to which a row without labels adds no softmax loss; with
// binary data this is the log loss. With rows of tokens it is the mean over all targets, in nats.
class MeanLoss final : public Metric {
 public:
  std::string key() const override { return kTestLoss; }
  bool higher_is_better() const override { return false; }
  bool applies(const DataShape&) const override { return true; }
  void add(const Batch&, const ScoredRows& rows, double loss, MetricSums& sums) const override {
    sums[0] += loss;
    sums[1] += static_cast<double>(rows.target.size());
  }
  std::optional<double> value(const MetricSums& sums, double n, const ScoredRows&) const override {
    return sums[0] / (sums[1] > 0 ? sums[1] : n);
  }
};

}  // namespace

std::string Metric::why_not(const DatasetTotals&) const { return ""; }

const std::vector<const Metric*>& metrics() {
  static const PrecisionAtK p1(1), p3(3), p5(5);
  static const MulticlassAccuracy multiclass_accuracy;
  static const BinaryAccuracy binary_accuracy(/*fields=*/false), click_accuracy(/*fields=*/true);
  static const Auc auc;
  static const Calibration calibration;
  static const Perplexity perplexity;
  static const BitsPerByte bits_per_byte;
  static const TokenAccuracy token_accuracy;
  static const MeanLoss loss;
  static const std::vector<const Metric*> all = {&p1,
                                                 &p3,
                                                 &p5,
                                                 &multiclass_accuracy,
                                                 &binary_accuracy,
                                                 &auc,
                                                 &click_accuracy,
                                                 &calibration,
                                                 &perplexity,
                                                 &bits_per_byte,
                                                 &token_accuracy,
                                                 &loss};
  return all;
}

std::vector<const Metric*> metrics_of(const DataShape& data) {
  std::vector<const Metric*> those;
  for (const Metric* metric : metrics()) {
    if (metric->applies(data)) those.push_back(metric);
  }
  return those;
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> keys;
    for (const Metric* metric : metrics()) {
      if (std::ranges::find(keys, metric->key()) == keys.end()) keys.push_back(metric->key());
    }
    keys.emplace_back(kTrainLoss);
    return keys;
  }();
  return names;
}

bool higher_is_better(std::string_view name) {
  for (const Metric* metric : metrics()) {
    if (metric->key() == name) return metric->higher_is_better();
  }
  HETSGD_CHECK_EQ(name, kTrainLoss);
  return false;
}

namespace {

// An integer with the order of the scores above its lowest bit, and the class in that bit. NaN
// ranks below all other scores.
std::uint64_t ranked(float score, bool positive) {
  if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  constexpr std::uint32_t kSign = 0x80000000U;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 is 0
  const std::uint32_t key = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return std::uint64_t{key} << 1 | (positive ? 1 : 0);
}

}  // namespace

std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const std::uint8_t> truth) {
  std::vector<std::uint64_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = ranked(scores[i], truth[i] != 0);
  boost::sort::spreadsort::integer_sort(order.begin(), order.end());
  double rank_sum = 0;
  std::uint64_t positives = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    std::uint64_t here = 0;
    for (; end < order.size() && order[end] >> 1 == order[begin] >> 1; ++end) {
      here += order[end] & 1;
    }
    const double mid_rank = 0.5 * static_cast<double>(begin + 1 + end);
    rank_sum += static_cast<double>(here) * mid_rank;  // halves below 2^52: exact
    positives += here;
  }
  const std::uint64_t negatives = order.size() - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  const auto p = static_cast<double>(positives);
  return (rank_sum - p * (p + 1) / 2) / (p * static_cast<double>(negatives));
}

}  // namespace hetsgd
