#include <gtest/gtest.h>

#include <cmath>

#include "model/mlp.hpp"

namespace hetsgd {
namespace {

Layout layout_of(double init_std) {
  MlpOptions options{.hidden = {128, 33}};
  if (init_std > 0) options.init_std = init_std;
  return make_mlp<double>({3001, 401}, options)->layout();
}

TEST(InitialParameters, SameBitsForAnyNumberOfThreads) {
  const Layout layout = layout_of(0);
  const auto one = initial_parameters<float>(layout, 7, 1);
  for (const std::optional<int> threads :
       {std::optional(2), std::optional(5), std::optional<int>()})
    EXPECT_EQ(initial_parameters<float>(layout, 7, threads), one);
  EXPECT_NE(initial_parameters<float>(layout, 8, 1), one);
}

TEST(InitialParameters, FloatIsRoundedDouble) {
  const auto f = initial_parameters<float>(layout_of(0), 3);
  const auto d = initial_parameters<double>(layout_of(0), 3);
  ASSERT_EQ(f.size(), d.size());
  for (std::size_t i = 0; i < f.size(); ++i) ASSERT_EQ(f[i], static_cast<float>(d[i]));
}

// Of N(0, s) truncated at 2 s: the mean is 0, the standard deviation 0.87963 s, the share inside s
// 0.6827 / 0.9545.
TEST(InitialParameters, AreTruncatedNormalWithZeroBiases) {
  for (const double asked : {0.0, 0.05}) {
    const Layout layout = layout_of(asked);
    const auto w = initial_parameters<double>(layout, 1);
    ASSERT_EQ(w.size(), layout.size);
    for (const ParameterBlock& view : layout.blocks) {
      const double* p = w.data() + view.offset;
      if (view.name.ends_with("bias")) {
        for (std::size_t i = 0; i < view.size(); ++i) ASSERT_EQ(p[i], 0);
        continue;
      }
      const double s = asked > 0 ? asked : 2 / std::sqrt(double(view.rows + view.cols));
      double sum = 0, squares = 0, inside = 0;
      for (std::size_t i = 0; i < view.size(); ++i) {
        ASSERT_LT(std::abs(p[i]), 2 * s);
        sum += p[i];
        squares += p[i] * p[i];
        inside += std::abs(p[i]) < s ? 1 : 0;
      }
      const auto n = double(view.size());
      const double density = std::exp(-2.0) / std::sqrt(2 * 3.14159265358979),
                   mass = std::erf(2 / std::sqrt(2.0));
      const double variance = 1 - 2 * 2 * density / mass;
      // Five standard errors.
      EXPECT_NEAR(sum / n / s, 0, 5 * std::sqrt(variance / n)) << view.name;
      EXPECT_NEAR(squares / n / s / s, variance, 5 / std::sqrt(n)) << view.name;
      EXPECT_NEAR(inside / n, std::erf(1 / std::sqrt(2.0)) / mass, 5 * 0.5 / std::sqrt(n))
          << view.name;
    }
  }
}

// The whole distribution: Kolmogorov-Smirnov distance to the truncated normal's.
TEST(InitialParameters, FollowTheDistributionFunction) {
  Layout layout;
  layout.add({.name = "weight", .rows = 20'000, .cols = 50, .init_std = 1.0});
  auto w = initial_parameters<double>(layout, 2);
  std::sort(w.begin(), w.end());
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  double distance = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double expected = (phi(w[i]) - phi(-2)) / (phi(2) - phi(-2));
    distance = std::max(distance, std::abs(expected - (double(i) + 0.5) / double(w.size())));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(double(w.size())));  // p = 0.001
}

}  // namespace
}  // namespace hetsgd
