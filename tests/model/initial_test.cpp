#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "model/mlp.hpp"

namespace hetsgd {
namespace {

Layout layout_of(double init_std, InitialLaw init = InitialLaw::fans) {
  MlpOptions options{.hidden = {128, 33}, .init = init};
  if (init_std > 0) options.init_std = init_std;
  return make_mlp<double>({3001, 401}, options)->layout();
}

// The variance of N(0, 1) truncated at 2.
double truncated_variance() {
  const double density = std::exp(-2.0) / std::sqrt(2 * 3.14159265358979),
               mass = std::erf(2 / std::sqrt(2.0));
  return 1 - 2 * 2 * density / mass;
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

// N(0, s) truncated at 2 s has mean 0 and standard deviation 0.87963 s; the share inside s is
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
      const double mass = std::erf(2 / std::sqrt(2.0)), variance = truncated_variance();
      // Five standard errors.
      EXPECT_NEAR(sum / n / s, 0, 5 * std::sqrt(variance / n)) << view.name;
      EXPECT_NEAR(squares / n / s / s, variance, 5 / std::sqrt(n)) << view.name;
      EXPECT_NEAR(inside / n, std::erf(1 / std::sqrt(2.0)) / mass, 5 * 0.5 / std::sqrt(n))
          << view.name;
    }
  }
}

// Layers 3001 -> 128 -> 33 -> 401. The mean square of n draws is the law's within five standard
// errors (a square's standard deviation is below its range's, 1 s^2).
TEST(InitialParameters, FollowTheirLaw) {
  const double in[] = {3001, 128, 33}, out[] = {128, 33, 401};
  for (const InitialLaw law : {InitialLaw::fans, InitialLaw::fan_in, InitialLaw::cpu_gpu_sgd}) {
    const Layout layout = layout_of(0, law);
    const auto w = initial_parameters<double>(layout, 5);
    double sum = 0, expected = 0, error = 0;
    for (std::size_t layer = 0; layer < 3; ++layer) {
      const ParameterBlock& block = layout.blocks[2 * layer];
      double std = 2 / std::sqrt(in[layer] + out[layer]);
      if (law == InitialLaw::fan_in) std = 1 / std::sqrt(in[layer]);
      // sqrt(3129) = 55.9: s = 56.
      if (law == InitialLaw::cpu_gpu_sgd) std = std::sqrt(2 * 56 / (in[layer] + out[layer]));
      double squares = 0;
      for (std::size_t i = 0; i < block.size(); ++i) {
        squares += w[block.offset + i] * w[block.offset + i];
      }
      const auto n = static_cast<double>(block.size());
      EXPECT_NEAR(squares / n / std / std, truncated_variance(), 5 / std::sqrt(n)) << layer;
      sum += squares;
      expected += truncated_variance() * n * std * std;
      error += n * std * std * std * std;
    }
    EXPECT_NEAR(sum, expected, 5 * std::sqrt(error));
  }
}

// The audit's figures for the models of Adaptive SGD, before truncation: features -> 128 -> labels.
TEST(InitialParameters, LawsOfThePapersModels) {
  const DataShape amazon{135'909, 670'091}, delicious{782'585, 205'443};
  const auto rms = [](const DataShape& data, InitialLaw law) {
    const auto model = make_mlp<float>(data, {.hidden = {128}, .init = law});
    double squares = 0;
    for (const ParameterBlock& block : model->layout().blocks) {
      squares += static_cast<double>(block.size()) * block.init_std * block.init_std;
    }
    return std::sqrt(squares / static_cast<double>(model->layout().size));
  };
  EXPECT_NEAR(rms(amazon, InitialLaw::fan_in), 0.080, 0.0005);
  EXPECT_NEAR(rms(delicious, InitialLaw::fan_in), 0.040, 0.0005);
  EXPECT_NEAR(rms(amazon, InitialLaw::cpu_gpu_sgd), 0.043, 0.0005);
  EXPECT_NEAR(rms(delicious, InitialLaw::cpu_gpu_sgd), 0.060, 0.0005);
  EXPECT_NEAR(rms(amazon, InitialLaw::fans), 0.003, 0.0005);
  EXPECT_NEAR(rms(delicious, InitialLaw::fans), 0.003, 0.0005);
}

TEST(InitialParameters, OneLawOnly) {
  MlpOptions options{.init = InitialLaw::fan_in};
  options.validate();
  options.init_std = 0.1;
  EXPECT_THROW(options.validate(), Error);
  options.init = InitialLaw::fans;
  options.validate();
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
