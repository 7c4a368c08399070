// How often hash tables retrieve rows (slide): random ones, and those near the query.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "linalg/device.hpp"
#include "model/labels/label_tables.hpp"
#include "support/random_numbers.hpp"

namespace hetsgd::test {
namespace {

// All codes come from one permutation, so they are independent. A table has a random row in a
// random query's bucket with probability q, the sum of squared probabilities of buckets, and R = N
// (1 - (1 - q)^L) of N rows are retrieved. Bucket 2 a + b of two codes of four places each, at
// strides of 2.
TEST(LabelRecall, RandomRowsAreRetrievedByTheLawOfTheirBuckets) {
  constexpr std::size_t kInputs = 64, kRows = 4000, kQueries = 300;
  const LabelHash hash({.codes = 2, .tables = 8, .bin = 4}, kInputs, 7, 0);
  std::array<double, 10> share{};
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) share[2 * a + b] += 1.0 / 16;
  }
  const double q = std::inner_product(share.begin(), share.end(), share.begin(), 0.0);
  const std::vector<float> W = normal_numbers(kRows * kInputs, 31);
  std::vector<float> queries = normal_numbers(kQueries * kInputs, 32);
  for (float& x : queries) x = std::abs(x);
  const auto device = make_cpu_device<float>(1);
  const LabelTables tables(hash, kRows, W.data(), 0, 1, 0, kernels<BasicHostCores<float>>(*device));
  std::vector<std::uint32_t> buckets(kQueries * 8), active;
  hash.queries(kQueries, queries.data(), buckets.data(), 8, 1);
  ActiveLabels labels({.least = 0}, kRows, 1);
  double retrieved = 0;
  for (std::size_t i = 0; i < kQueries; ++i) {
    active.clear();
    retrieved +=
        static_cast<double>(labels.append(&tables, 0, {}, {&buckets[i * 8], 8}, active).retrieved);
  }
  const double R = kRows * (1 - std::pow(1 - q, 8));
  EXPECT_NEAR(retrieved / kQueries, R, 0.02 * R);
}

// The query is a row plus noise, at a cosine of .9; recall is how often its tables hold the row.
// The expected recall comes from 40,000 trials of tests/reference/slide_recall.py, which shares no
// code with this test.
TEST(LabelRecall, PlantedQueriesFindTheirRows) {
  struct Planted {
    HashOptions options;
    std::size_t inputs;
    double recall;  // of the script
  };
  constexpr double kScriptTrials = 40000;
  constexpr int kTrials = 2000;
  const std::vector<Planted> cases = {{{.codes = 6, .tables = 10, .bin = 8}, 128, 0.5929},
                                      {{.codes = 3, .tables = 4, .bin = 8}, 64, 0.7548}};
  for (const auto& [options, inputs, recall] : cases) {
    int found = 0;
    std::vector<std::uint32_t> of_row(options.tables), of_query(options.tables);
    for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
      const LabelHash hash(options, inputs, 5, trial);
      const std::vector<float> row = normal_numbers(inputs, 2 * trial + 100);
      std::vector<float> query = normal_numbers(inputs, 2 * trial + 101);
      // noise's part at a right angle to the row, as long as the row times tan(acos .9)
      const double along = std::inner_product(row.begin(), row.end(), query.begin(), 0.0) /
                           std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
      double squares = 0, rows_squares = 0;
      for (std::size_t i = 0; i < inputs; ++i) {
        query[i] -= static_cast<float>(along) * row[i];
        squares += query[i] * query[i];
        rows_squares += row[i] * row[i];
      }
      const auto scale = static_cast<float>(std::sqrt(rows_squares / squares * (1 / 0.81 - 1)));
      for (std::size_t i = 0; i < inputs; ++i) query[i] = row[i] + scale * query[i];
      hash.rows(1, row.data(), of_row.data(), options.tables, 1);
      hash.queries(1, query.data(), of_query.data(), options.tables, 1);
      bool is_found = false;
      for (std::size_t t = 0; t < options.tables; ++t) is_found |= of_row[t] == of_query[t];
      found += is_found ? 1 : 0;
    }
    const double sigma = std::sqrt(recall * (1 - recall) * (1.0 / kTrials + 1.0 / kScriptTrials));
    EXPECT_NEAR(static_cast<double>(found) / kTrials, recall, 3 * sigma) << options.codes;
  }
}

}  // namespace
}  // namespace hetsgd::test
