// How often hash tables retrieve random rows (slide).

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

}  // namespace
}  // namespace hetsgd::test
