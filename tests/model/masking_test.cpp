// How many tokens are masked, which, and as what.
#include "model/network/masking.hpp"

namespace hetsgd::test {
namespace {

TEST(Masking, HasExactlySoManyTargets) {
  const MaskRule rule{.kinds = 30};
  for (const auto& [tokens, targets] :
       {std::pair{1, 1}, {3, 1}, {9, 1}, {10, 2}, {64, 10}, {128, 19}, {512, 77}}) {
    const std::vector<std::uint16_t> row(static_cast<std::size_t>(tokens), 5);
    const MaskedRow masked = mask_row(rule, {1, 2}, row);
    EXPECT_EQ(masked.position.size(), static_cast<std::size_t>(targets)) << tokens;
    EXPECT_TRUE(std::ranges::is_sorted(masked.position));
    EXPECT_EQ(std::ranges::adjacent_find(masked.position), masked.position.end());
    EXPECT_LT(masked.position.back(), row.size());
    for (std::uint32_t t = 0; t < row.size(); ++t) {
      if (std::ranges::find(masked.position, t) == masked.position.end()) {
        EXPECT_EQ(masked.input[t], 5);
      }
    }
  }
}

TEST(Masking, SharesMayBeOthers) {
  const std::vector<std::uint16_t> row(64, 5);
  const auto masked = [&](const MaskRule& rule) {
    const MaskedRow one = mask_row(rule, {1, 2}, row);
    EXPECT_EQ(one.position.size(), rule.targets(64));
    return std::ranges::count(one.input, 30);
  };
  EXPECT_EQ(masked({.share = 0.5, .masked = 1, .replaced = 0, .kinds = 30}), 32);
  EXPECT_EQ(masked({.share = 1, .masked = 1, .replaced = 0, .kinds = 30}), 64);
  EXPECT_EQ(masked({.share = 1e-9, .masked = 1, .replaced = 0, .kinds = 30}), 1);
  EXPECT_EQ(masked({.share = 0.5, .masked = 0, .replaced = 1, .kinds = 30}), 0);
}

// Within four standard deviations over a million targets.
TEST(Masking, SharesAreThoseOfBert) {
  constexpr std::uint64_t kRows = 100'000;
  const MaskRule rule{.kinds = 30};
  const std::vector<std::uint16_t> row(64, 30 - 1);
  double masked = 0, replaced = 0, same = 0;
  std::vector<double> place(row.size()), kind(30);
  for (std::uint64_t r = 0; r < kRows; ++r) {
    const MaskedRow one = mask_row(rule, {7, r}, row);
    for (const std::uint32_t position : one.position) {
      ++place[position];
      const std::uint16_t token = one.input[position];
      if (token < 30) ++kind[token];
      ++(token == 30 ? masked : token == 29 ? same : replaced);
    }
  }
  const double n = 10.0 * kRows;
  const auto expect = [&](double count, double share) {
    EXPECT_NEAR(count / n, share, 4 * std::sqrt(share * (1 - share) / n));
  };
  expect(masked, 0.8);
  expect(replaced, 0.1 * 29 / 30);  // any token may be the one that was there
  expect(same, 0.1 + 0.1 / 30);
  for (const double count : place) expect(count, 1.0 / 64);
  for (std::size_t k = 0; k < 29; ++k) expect(kind[k], 0.1 / 30);
}

TEST(Masking, DependsOnItsKeyAlone) {
  const MaskRule rule{.kinds = 30};
  const std::vector<std::uint16_t> row(64, 3);
  const auto drawn = [&](std::uint64_t seed, std::uint64_t place) {
    return mask_row(rule, {seed, place}, row).position;
  };
  EXPECT_EQ(drawn(1, 2), drawn(1, 2));
  EXPECT_NE(drawn(1, 2), drawn(1, 3));
  EXPECT_NE(drawn(1, 2), drawn(2, 2));
  EXPECT_NE(drawn(1, 2), drawn(1, 2 + (std::uint64_t{1} << 32)));
}

}  // namespace
}  // namespace hetsgd::test
