// Codes of labels, the tables that hold them, and the active labels that they yield.

#include "model/labels/label_tables.hpp"

#include "core/random.hpp"
#include "linalg/device.hpp"
#include "support/random_numbers.hpp"

namespace hetsgd::test {
namespace {

double binomial(std::size_t n, std::size_t k) {
  if (k > n) return 0;
  double product = 1;
  for (std::size_t i = 0; i < k; ++i) {
    product *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return product;
}

// A bin of m of the d coordinates gives query x and row y the same code if both have their largest
// element at the same place. So for each i with x_i > 0 the others of the bin are among the PO_i
// coordinates that are smaller in both. The code of an empty bin, only zeros of x, is independent
// of y.
double collision_probability(std::span<const float> x, std::span<const float> y, std::size_t m) {
  const std::size_t d = x.size();
  double hits = 0;
  for (std::size_t i = 0; i < d; ++i) {
    if (x[i] <= 0) continue;
    std::size_t smaller = 0;
    for (std::size_t j = 0; j < d; ++j) smaller += x[j] < x[i] && y[j] < y[i] ? 1 : 0;
    hits += binomial(smaller, m - 1);
  }
  const auto zeros = static_cast<std::size_t>(std::ranges::count(x, 0.0F));
  return (hits + binomial(zeros, m) / static_cast<double>(m)) / binomial(d, m);
}

TEST(LabelHash, CodesCollideAsOftenAsTheFormulaSays) {
  constexpr std::size_t kInputs = 24;
  constexpr int kGenerations = 8000;
  for (const std::uint32_t bin : {2U, 4U, 8U}) {
    for (const float floor : {-0.5F, 0.3F}) {  // few and many zeros in the query
      const std::vector<float> row = normal_numbers(kInputs, 5);
      std::vector<float> query = normal_numbers(kInputs, 6);
      for (std::size_t i = 0; i < kInputs; ++i) {
        query[i] = std::max(0.0F, query[i] + 0.7F * row[i] - floor);
      }
      const double p = collision_probability(query, row, bin);
      std::array<int, 12> collisions{};  // of each code, whose bins are parts of permutations
      for (std::uint32_t generation = 0; generation < kGenerations; ++generation) {
        const LabelHash hash({.codes = 1, .tables = 12, .bin = bin}, kInputs, 3, generation);
        const auto of_query = hash.query_codes(query.data()), of_row = hash.row_codes(row.data());
        for (std::size_t t = 0; t < 12; ++t) collisions[t] += of_query[t] == of_row[t] ? 1 : 0;
      }
      const double sigma = std::sqrt(kGenerations * p * (1 - p));
      for (const int each : collisions) {
        EXPECT_NEAR(each, kGenerations * p, 4 * sigma) << "bin " << bin << ", p " << p;
      }
    }
  }
}

// One bin per permutation (d < 2 m), and no empty bin: codes are independent. A table matches with
// p^K, one of L does with 1 - (1 - p^K)^L.
TEST(LabelHash, TablesRetrieveAsOftenAsTheFormulaSays) {
  constexpr std::size_t kInputs = 11;
  constexpr std::uint32_t kBin = 6, kTables = 10;
  constexpr int kGenerations = 3000;
  const std::vector<float> row = normal_numbers(kInputs, 15), noise = normal_numbers(kInputs, 16);
  std::vector<float> query(kInputs);
  for (std::size_t i = 0; i < kInputs; ++i) query[i] = std::abs(row[i] + 0.4F * noise[i]) + 0.01F;
  const double p = collision_probability(query, row, kBin);
  for (const std::uint32_t codes : {1U, 2U, 3U}) {
    int matches = 0, retrieved = 0;
    for (std::uint32_t generation = 0; generation < kGenerations; ++generation) {
      const LabelHash hash({.codes = codes, .tables = kTables, .bin = kBin}, kInputs, 4,
                           generation);
      const auto of_row = hash.row_codes(row.data()), of_query = hash.query_codes(query.data());
      int here = 0;
      for (std::size_t t = 0; t < kTables; ++t) {
        const auto first = of_row.begin() + static_cast<std::ptrdiff_t>(t * codes);
        here += std::equal(first, first + codes, of_query.begin() + (first - of_row.begin()));
      }
      matches += here;
      retrieved += here > 0 ? 1 : 0;
    }
    const double table = std::pow(p, codes), any = 1 - std::pow(1 - table, kTables);
    constexpr double kMatches = kGenerations * static_cast<double>(kTables);
    EXPECT_NEAR(matches, kMatches * table, 4 * std::sqrt(kMatches * table * (1 - table))) << codes;
    EXPECT_NEAR(retrieved, kGenerations * any, 4 * std::sqrt(kGenerations * any * (1 - any)))
        << codes;
  }
}

// Without an empty bin, by the definition: codes of a query and of a row are the place of the
// largest number; buckets are numbers of these codes.
TEST(LabelHash, BucketsAreTheNumbersOfTheirCodes) {
  const HashOptions options{.codes = 3, .tables = 5, .bin = 8};
  const LabelHash hash(options, 32, 1, 2);
  constexpr std::size_t kRows = 37;  // two blocks of 16 and a part of one
  const std::vector<float> W = normal_numbers(kRows * 32, 9);
  std::vector<std::uint32_t> bucket(kRows * 5);
  hash.rows(kRows, W.data(), bucket.data(), 5, 1);
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto codes = hash.row_codes(&W[row * 32]);
    for (std::size_t t = 0; t < 5; ++t) {
      const std::uint32_t expected = (codes[3 * t] * 4U + codes[3 * t + 1]) * 4 + codes[3 * t + 2];
      EXPECT_EQ(bucket[row * 5 + t], expected);
      EXPECT_LT(expected, options.buckets());
    }
  }
  EXPECT_EQ((HashOptions{.codes = 6, .bin = 8}).buckets(), 9556U);  // 7 (4^6 - 1) / 3 + 1
  EXPECT_EQ((HashOptions{.kind = HashKind::simhash, .codes = 9}).buckets(), 512U);
}

// NaN is no larger than any element, wherever it stands in a bin.
TEST(LabelHash, WhatIsNotANumberNeverWins) {
  constexpr std::size_t kInputs = 40;
  const LabelHash hash({.codes = 4, .tables = 20, .bin = 8}, kInputs, 2, 0);
  std::vector<float> without = normal_numbers(kInputs, 8), with = without;
  for (std::size_t i = 0; i < kInputs; i += 3) {
    without[i] = -1e30F;
    with[i] = std::nanf("");
  }
  EXPECT_EQ(hash.row_codes(with.data()), hash.row_codes(without.data()));
}

// Signs of sums: a vector and its opposite differ in every bit whose sum is not 0.
TEST(LabelHash, SimHashTurnsWithItsVector) {
  const LabelHash hash({.kind = HashKind::simhash, .codes = 9, .tables = 50}, 32, 1, 0);
  std::vector<float> x = normal_numbers(32, 4), opposite = x, twice = x;
  for (std::size_t i = 0; i < 32; ++i) {
    opposite[i] = -x[i];
    twice[i] = 2 * x[i];
  }
  const auto codes = hash.row_codes(x.data());
  EXPECT_EQ(hash.row_codes(twice.data()), codes);
  const auto turned = hash.row_codes(opposite.data());
  for (std::size_t c = 0; c < codes.size(); ++c) EXPECT_EQ(codes[c] + turned[c], 1) << c;
}

// For two vectors with angle theta, sums of +-x over random coordinates have the same sign in 1 -
// theta / pi of the cases (Charikar 2002); the coordinates are as good as independent.
TEST(LabelHash, SimHashBitsAgreeByTheAngle) {
  constexpr std::size_t kInputs = 384;
  const std::vector<float> x = normal_numbers(kInputs, 21), noise = normal_numbers(kInputs, 22);
  for (const float share : {0.0F, 0.5F, 1.5F, -1.0F}) {
    std::vector<float> y = noise;
    for (std::size_t i = 0; i < kInputs; ++i) y[i] += share * x[i];
    const double dot = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0) *
                           std::inner_product(y.begin(), y.end(), y.begin(), 0.0);
    const double agree = 1 - std::acos(dot / std::sqrt(squares)) / std::acos(-1.0);
    int equal = 0, all = 0;
    for (std::uint32_t generation = 0; generation < 40; ++generation) {
      const LabelHash hash({.kind = HashKind::simhash, .codes = 9, .tables = 50}, kInputs, 1,
                           generation);
      const auto of_x = hash.row_codes(x.data()), of_y = hash.row_codes(y.data());
      for (std::size_t c = 0; c < of_x.size(); ++c, ++all) equal += of_x[c] == of_y[c] ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(equal) / all, agree, 0.02) << share;
  }
}

TEST(LabelHash, AQueryWithoutAPositiveNumberIsBlind) {
  const std::vector<float> queries(3 * 16, 0.0F);
  std::vector<std::uint32_t> bucket(3 * 4);
  const LabelHash densified({.codes = 2, .tables = 4, .bin = 4}, 16, 1, 0);
  EXPECT_EQ(densified.queries(3, queries.data(), bucket.data(), 4, 1), 3U);
  EXPECT_EQ(bucket[0], bucket[4]);
}

class Tables : public testing::Test {
 protected:
  static constexpr std::size_t kRows = 300, kInputs = 16;
  LabelTables make(std::uint32_t limit, int cores, std::uint32_t rehash = 0) const {
    const auto device = make_cpu_device<float>(cores);
    return {hash, kRows, W.data(), limit, 1, rehash, kernels<BasicHostCores<float>>(*device)};
  }
  const std::vector<float> W = normal_numbers(kRows * kInputs, 11);
  const LabelHash hash{{.codes = 2, .tables = 6, .bin = 4}, kInputs, 1, 0};
};

TEST_F(Tables, HoldEveryRowInItsBucket) {
  std::vector<std::uint32_t> bucket(kRows * 6);
  hash.rows(kRows, W.data(), bucket.data(), 6, 1);
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<std::uint32_t>> expected;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::size_t t = 0; t < 6; ++t) expected[{t, bucket[row * 6 + t]}].push_back(row);
  }
  for (const int cores : {1, 3}) {
    const LabelTables tables = make(0, cores);
    for (std::size_t t = 0; t < 6; ++t) {
      for (std::uint32_t b = 0; b < hash.options().buckets(); ++b) {
        const auto found = tables.bucket(t, b);
        EXPECT_EQ(std::vector<std::uint32_t>(found.begin(), found.end()), (expected[{t, b}]));
      }
    }
  }
}

// A full bucket keeps `limit` of its rows, others at another rehash, and all with the same chance:
// of n rows each stays in limit / n of the rehashes.
TEST_F(Tables, FullBucketsKeepRowsAtRandom) {
  const LabelTables whole = make(0, 1);
  std::uint32_t fullest = 0;
  for (std::uint32_t b = 0; b < hash.options().buckets(); ++b) {
    if (whole.bucket(0, b).size() > whole.bucket(0, fullest).size()) fullest = b;
  }
  const auto all = whole.bucket(0, fullest);
  constexpr std::uint32_t kLimit = 5, kRehashes = 400;
  ASSERT_GT(all.size(), 2 * kLimit);
  std::map<std::uint32_t, int> kept;
  for (std::uint32_t rehash = 0; rehash < kRehashes; ++rehash) {
    const LabelTables tables = make(kLimit, 2, rehash);
    const auto some = tables.bucket(0, fullest);
    ASSERT_EQ(some.size(), kLimit);
    EXPECT_TRUE(std::ranges::is_sorted(some));
    for (const std::uint32_t row : some) ++kept[row];
    for (std::uint32_t b = 0; b < hash.options().buckets(); ++b) {
      EXPECT_EQ(tables.bucket(1, b).size(),
                std::min<std::size_t>(kLimit, whole.bucket(1, b).size()));
    }
  }
  const double p = static_cast<double>(kLimit) / static_cast<double>(all.size());
  for (const std::uint32_t row : all) {
    EXPECT_NEAR(kept[row], kRehashes * p, 5 * std::sqrt(kRehashes * p * (1 - p))) << row;
  }
}

std::vector<std::uint32_t> labels_of(const ActiveOptions& options, const LabelTables& tables,
                                     std::uint32_t number, std::uint64_t batch,
                                     std::span<const std::uint32_t> truth,
                                     std::span<const std::uint32_t> buckets, Retrieval& counts) {
  ActiveLabels active(options, 300, 1);
  std::vector<std::uint32_t> labels, again;
  active.begin_batch(batch);
  counts = active.append(&tables, number, truth, buckets, labels);
  active.append(&tables, number, truth, buckets, again);  // scratch is clean between calls
  EXPECT_EQ(labels, again);
  return labels;
}

// The batch's list is the same for all its samples, a sample's is its own.
TEST_F(Tables, ActiveLabelsAreFilledByTheBatchOrTheSample) {
  const LabelTables tables = make(0, 1);
  const std::vector<std::uint32_t> truth{7, 100, 299};
  std::vector<std::uint32_t> buckets(6);
  hash.queries(1, &W[100 * kInputs], buckets.data(), 6, 1);  // row 100's own, nearly
  const auto of = [&](const ActiveOptions& options, std::uint32_t number, std::uint64_t batch) {
    Retrieval counts;
    return labels_of(options, tables, number, batch, truth, buckets, counts);
  };
  const ActiveOptions by_sample{.least = 250, .fill = LabelFill::sample};
  EXPECT_EQ(of({.least = 250}, 5, 1), of({.least = 250}, 0, 1));
  EXPECT_NE(of({.least = 250}, 0, 2), of({.least = 250}, 0, 1));
  EXPECT_NE(of(by_sample, 5, 1), of(by_sample, 6, 1));
  EXPECT_EQ(of({.all = true}, 0, 1).size(), 300U);
}

// Random options, tables, truths and queries against sets: the true labels first, then what the
// buckets hold, in their order, then others, each once, as many as there must be.
TEST_F(Tables, ActiveLabelsOfRandomOptionsAreThoseOfSets) {
  RandomStream dice(17, Purpose::test);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(dice.below(n)); };
  const LabelTables tables = make(0, 1), cut = make(7, 1);
  for (std::uint32_t round = 0; round < 400; ++round) {
    const LabelTables& held = below(2) == 0 ? tables : cut;
    ActiveOptions options{.least = below(2) == 0 ? 0 : below(320)};
    options.fill = below(2) == 0 ? LabelFill::batch : LabelFill::sample;
    std::set<std::uint32_t> distinct;
    while (distinct.size() < below(20)) distinct.insert(below(kRows));
    const std::vector<std::uint32_t> truth(distinct.begin(), distinct.end());
    std::vector<std::uint32_t> buckets(6);
    hash.queries(1, &W[below(kRows) * kInputs], buckets.data(), 6, 1);

    std::set<std::uint32_t> seen = distinct, hits;
    std::vector<std::uint32_t> expected = truth;
    for (std::size_t t = 0; t < 6; ++t) {
      for (const std::uint32_t l : held.bucket(t, buckets[t])) {
        hits.insert(l);
        if (seen.insert(l).second) expected.push_back(l);
      }
    }
    Retrieval counts;
    const auto labels = labels_of(options, held, round, round, truth, buckets, counts);
    EXPECT_EQ(counts.retrieved, hits.size()) << round;
    EXPECT_EQ(counts.labels, truth.size()) << round;
    EXPECT_EQ(counts.found, hits.size() + truth.size() - expected.size()) << round;
    const std::size_t least = std::min<std::size_t>(options.least, kRows);
    ASSERT_EQ(labels.size(), std::max(least, expected.size())) << round;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), labels.begin())) << round;
    EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), labels.size()) << round;
    EXPECT_TRUE(std::ranges::all_of(labels, [](std::uint32_t l) { return l < kRows; })) << round;
  }
}

}  // namespace
}  // namespace hetsgd::test
