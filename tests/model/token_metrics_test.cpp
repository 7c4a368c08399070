// Metrics of rows of tokens, by their definitions.

#include "model/metric.hpp"
#include "support/dataset.hpp"

namespace hetsgd {
namespace {

// Three rows of 2, 1 and 1 targets, which cover 5, 1 and 4 bytes.
Dataset three_rows(std::vector<std::uint32_t> bytes) {
  DatasetBuilder data = test::dataset_of(Task::tokens, 4);
  data.tokens = {.vocabulary = 4,
                 .token = {0, 1, 2, 3, 0, 1},
                 .begin = {0, 3, 4},
                 .length = {2, 1, 1},
                 .bytes = std::move(bytes)};
  data.targets.begin.assign(4, 0);
  return std::move(data).build();
}

const Metric& metric_of(const Dataset& data, const std::string& key) {
  for (const Metric* metric : metrics_of(DataShape::of(data))) {
    if (metric->key() == key) return *metric;
  }
  throw std::runtime_error(key);
}

// The metric of the rows, scored in two chunks: rows 0 and 1, then row 2.
std::optional<double> measured(const Dataset& data, const std::string& key) {
  const Metric& metric = metric_of(data, key);
  const std::vector<std::uint32_t> target = {1, 2, 0, 1}, top = {1, 0, 3, 2, 0, 1, 0, 1};
  MetricSums sums{}, more{};
  metric.add(Batch(data, {0, 1}),
             {.k = 2, .top = std::span(top).first(6), .target = std::span(target).first(3)}, 2.5,
             sums);
  metric.add(Batch(data, {2}),
             {.k = 2, .top = std::span(top).last(2), .target = std::span(target).last(1)}, 1.5,
             more);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  return metric.value(sums, 3, {});
}

TEST(TokenMetrics, AreThoseOfAllTargets) {
  const Dataset data = three_rows({5, 1, 4});
  std::vector<std::string> keys;
  for (const Metric* metric : metrics_of(DataShape::of(data))) keys.push_back(metric->key());
  EXPECT_THAT(keys, ElementsAre("perplexity", "bits_per_byte", "accuracy", "test_loss"));
  EXPECT_EQ(measured(data, "test_loss"), 1.0);
  EXPECT_EQ(measured(data, "perplexity"), std::exp(1.0));
  EXPECT_EQ(measured(data, "accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(*measured(data, "bits_per_byte"), 4 / std::log(2.0) / 10);
  for (const char* key : {"perplexity", "bits_per_byte", "test_loss"}) {
    EXPECT_FALSE(higher_is_better(key)) << key;
  }
}

TEST(TokenMetrics, BitsPerByteNeedBytes) {
  const Dataset text = three_rows({5, 1, 4}), synthetic = three_rows({0, 0, 0});
  EXPECT_THAT(metric_of(text, "bits_per_byte").why_not(text.totals()), IsEmpty());
  EXPECT_THAT(metric_of(synthetic, "bits_per_byte").why_not(synthetic.totals()),
              testing::HasSubstr("expected a text for bits_per_byte"));
  EXPECT_EQ(measured(synthetic, "bits_per_byte"), std::nullopt);
  EXPECT_EQ(measured(synthetic, "test_loss"), 1.0);
}

}  // namespace
}  // namespace hetsgd
