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

// Layers 3001 -> 128 -> 33 -> 401. The mean square of n draws is the law's within five standard
// errors (a square's standard deviation is below its range's, 1 s^2). Biases are zero.
TEST(InitialParameters, FollowTheirLaw) {
  const double in[] = {3001, 128, 33}, out[] = {128, 33, 401};
  for (const auto& [law, asked] :
       {std::pair(InitialLaw::fans, 0.0), std::pair(InitialLaw::fans, 0.05),
        std::pair(InitialLaw::fan_in, 0.0), std::pair(InitialLaw::cpu_gpu_sgd, 0.0)}) {
    const Layout layout = layout_of(asked, law);
    const auto w = initial_parameters<double>(layout, 5);
    ASSERT_EQ(w.size(), layout.size);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      const ParameterBlock &block = layout.blocks[2 * layer], &bias = layout.blocks[2 * layer + 1];
      double std = 2 / std::sqrt(in[layer] + out[layer]);
      if (law == InitialLaw::fan_in) std = 1 / std::sqrt(in[layer]);
      // sqrt(3129) = 55.9: s = 56.
      if (law == InitialLaw::cpu_gpu_sgd) std = std::sqrt(2 * 56 / (in[layer] + out[layer]));
      if (asked > 0) std = asked;
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < block.size(); ++i) {
        const double value = w[block.offset + i];
        ASSERT_LT(std::abs(value), 2 * std);
        sum += value;
        squares += value * value;
      }
      const auto n = static_cast<double>(block.size());
      EXPECT_NEAR(sum / n / std, 0, 5 * std::sqrt(truncated_variance() / n)) << layer;
      EXPECT_NEAR(squares / n / std / std, truncated_variance(), 5 / std::sqrt(n)) << layer;
      for (std::size_t i = 0; i < bias.size(); ++i) ASSERT_EQ(w[bias.offset + i], 0);
    }
  }
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
