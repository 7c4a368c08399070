#include "core/random.hpp"

#include "core/error.hpp"

namespace hetsgd {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(int n, const std::function<double()>& draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n;
  return {mean, squares / n - mean * mean};
}

// Known answers of Philox4x32-10 from Random123's kat_vectors: counter and key all zero, all ones,
// and the digits of pi. The counter here is (index, a, b, purpose).
TEST(Random, BlockIsPhilox4x32_10) {
  EXPECT_EQ(random_block(0, static_cast<Purpose>(0), 0, 0, 0),
            (RandomBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(random_block(0xFFFFFFFFFFFFFFFFU, static_cast<Purpose>(0xFFFFFFFFU), 0xFFFFFFFFU,
                         0xFFFFFFFFU, 0xFFFFFFFFU),
            (RandomBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(random_block(0x299f31d0a4093822U, static_cast<Purpose>(0x03707344U), 0x85a308d3U,
                         0x13198a2eU, 0x243f6a88U),
            (RandomBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsReadTheBlocksInOrder) {
  RandomStream stream(7, Purpose::test, 3, 4);
  for (std::uint32_t index = 0; index < 5; ++index) {
    const RandomBlock block = random_block(7, Purpose::test, 3, 4, index);
    for (const std::uint32_t word : block) EXPECT_EQ(stream.next_u32(), word);
  }
}

TEST(Random, StreamsOfDifferentPlacesDiffer) {
  std::set<std::uint64_t> first;
  int streams = 0;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const Purpose purpose : {Purpose::data_order, Purpose::straggler}) {
      for (const std::uint64_t a : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
        for (const std::uint32_t b : {0U, 1U}) {
          first.insert(RandomStream(seed, purpose, a, b).next_u64());
          ++streams;
        }
      }
    }
  }
  EXPECT_EQ(first.size(), static_cast<std::size_t>(streams));
}

// Means and variances against the closed forms; 5 standard errors of the estimate.
TEST(Random, DistributionsHaveTheirMoments) {
  constexpr int n = 200'000;
  struct Case {
    const char* name;
    std::function<double(RandomStream&)> draw;
    double mean, variance, fourth;  // fourth: the central moment, for the error of the variance
  };
  const double s = 0.3, m = std::exp(s * s / 2), q = std::exp(s * s);
  const double lognormal_variance = (q - 1) * q;
  const double lognormal_kurtosis = std::pow(q, 4) + 2 * std::pow(q, 3) + 3 * q * q - 3;
  const std::vector<Case> cases{
      {"uniform", [](RandomStream& r) { return r.uniform(); }, 0.5, 1.0 / 12, 1.0 / 80},
      {"uniform(2,5)", [](RandomStream& r) { return r.uniform(2, 5); }, 3.5, 0.75, 81.0 / 80},
      {"normal", [](RandomStream& r) { return r.normal(); }, 0, 1, 3},
      {"exponential", [](RandomStream& r) { return r.exponential(); }, 1, 1, 9},
      {"lognormal", [s](RandomStream& r) { return r.lognormal(0, s); }, m, lognormal_variance,
       lognormal_kurtosis * lognormal_variance * lognormal_variance},
      // shape 9: mean 9/8 and so on; the fourth moment exists.
      {"pareto", [](RandomStream& r) { return r.pareto(1, 9); }, 9.0 / 8, 9.0 / (64 * 7),
       (3 + 6 * (729 + 81 - 54 - 2) / (9.0 * 6 * 5)) * std::pow(9.0 / (64 * 7), 2)},
      {"gamma(2.5)", [](RandomStream& r) { return r.gamma(2.5); }, 2.5, 2.5, 2.5 * 2.5 * (3 + 2.4)},
      {"gamma(0.4)", [](RandomStream& r) { return r.gamma(0.4); }, 0.4, 0.4, 0.16 * (3 + 15)},
  };
  std::uint64_t place = 0;
  for (const Case& c : cases) {
    RandomStream stream(11, Purpose::test, ++place);
    const Moments got = moments(n, [&] { return c.draw(stream); });
    EXPECT_NEAR(got.mean, c.mean, 5 * std::sqrt(c.variance / n)) << c.name;
    EXPECT_NEAR(got.variance, c.variance, 5 * std::sqrt((c.fourth - c.variance * c.variance) / n))
        << c.name;
  }
}

TEST(Random, BelowIsUnbiased) {
  RandomStream stream(3, Purpose::test);
  constexpr int n = 70'000;
  std::array<int, 7> count{};
  for (int i = 0; i < n; ++i) ++count[stream.below(7)];
  for (const int c : count) EXPECT_NEAR(c, n / 7.0, 5 * std::sqrt(n * (1.0 / 7) * (6.0 / 7)));
  // A bound of 3/4 * 2^64: a plain multiply-shift would hit every third value twice as often.
  const std::uint64_t big = 3ULL << 62;
  int low = 0;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t x = stream.below(big);
    ASSERT_LT(x, big);
    low += x < big / 3;
  }
  EXPECT_NEAR(low, n / 3.0, 5 * std::sqrt(n * 2.0 / 9));
  EXPECT_EQ(stream.below(1), 0U);
  EXPECT_THROW(stream.below(0), CheckFailure);
}

TEST(Permutation, IsABijection) {
  for (const std::uint64_t n : {1U, 2U, 3U, 5U, 16U, 17U, 1000U, 12920U}) {
    for (const std::uint32_t round : {0U, 1U}) {
      const Permutation order(n, 42, Purpose::data_order, round);
      EXPECT_EQ(order.size(), n);
      std::vector<bool> seen(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t x = order(i);
        ASSERT_LT(x, n);
        ASSERT_FALSE(seen[x]) << "n " << n << ", element " << x << " twice";
        seen[x] = true;
      }
    }
  }
}

TEST(Permutation, RoundsAndSeedsDiffer) {
  constexpr std::uint64_t n = 1000;
  const Permutation a(n, 1, Purpose::data_order, 0), b(n, 1, Purpose::data_order, 1),
      c(n, 2, Purpose::data_order, 0), again(n, 1, Purpose::data_order, 0);
  int same_round = 0, same_seed = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    same_round += a(i) == b(i);
    same_seed += a(i) == c(i);
    EXPECT_EQ(a(i), again(i));
  }
  // Two random permutations agree in Poisson(1) places.
  EXPECT_LT(same_round, 10);
  EXPECT_LT(same_seed, 10);
}

TEST(Permutation, MixesPositions) {
  // Mean displacement of a random permutation is n/3, its standard error about n/sqrt(18 n).
  constexpr std::uint64_t n = 10'000;
  const Permutation order(n, 9, Purpose::data_order, 0);
  double sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    sum += std::abs(static_cast<double>(order(i)) - static_cast<double>(i));
  }
  EXPECT_NEAR(sum / n, n / 3.0, 5 * n / std::sqrt(18.0 * n));
}

}  // namespace
}  // namespace hetsgd
