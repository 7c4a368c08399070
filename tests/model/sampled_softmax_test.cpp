// The softmax over active labels: its gradient against finite differences, and its limits.

#include "model/labels/sampled_softmax.hpp"

#include "core/random.hpp"
#include "linalg/device.hpp"
#include "support/random_numbers.hpp"

namespace hetsgd::test::sampled_softmax {
namespace {

constexpr std::size_t kLabels = 70, kInputs = 19;
// As many columns as registers hold of a row at once, as many again, a vector's and some more.
constexpr std::size_t kWide = 128 + 128 + 16 + 5;

// A batch of random active labels: none, few or all of them, of which 0 to all are true.
struct Problem {
  explicit Problem(std::uint64_t seed, std::size_t width = kInputs)
      : inputs(width),
        A(normal_numbers(kSamples * inputs, 3 * seed)),
        W(normal_numbers(kLabels * inputs, 3 * seed + 1)),
        b(normal_numbers(kLabels, 3 * seed + 2)) {
    RandomStream dice(seed, Purpose::test, 99);
    for (std::size_t i = 0; i < kSamples; ++i) {
      std::vector<std::uint32_t> labels(kLabels);
      std::iota(labels.begin(), labels.end(), 0U);
      for (std::size_t k = kLabels; k > 1; --k) std::swap(labels[k - 1], labels[dice.below(k)]);
      const std::uint64_t kind = dice.below(4);
      labels.resize(kind == 0 ? kLabels : kind == 1 ? 1 + dice.below(3) : 1 + dice.below(kLabels));
      active.push_back(labels);
      truth.push_back(static_cast<std::uint32_t>(dice.below(labels.size() + 1)));
    }
  }

  // The mean loss, in double, by its definition.
  double loss(const std::vector<double>& a, const std::vector<double>& w,
              const std::vector<double>& bias) const {
    double sum = 0;
    for (std::size_t i = 0; i < kSamples; ++i) {
      if (truth[i] == 0) continue;
      std::vector<double> z;
      for (const std::uint32_t l : active[i]) {
        z.push_back(
            std::inner_product(&a[i * inputs], &a[i * inputs] + inputs, &w[l * inputs], bias[l]));
      }
      double total = 0;
      for (const double each : z) total += std::exp(each);
      for (std::size_t k = 0; k < truth[i]; ++k) sum += (std::log(total) - z[k]) / truth[i];
    }
    return sum / kSamples;
  }

  static constexpr std::size_t kSamples = 9;
  std::size_t inputs;
  std::vector<float> A, W, b;
  std::vector<std::vector<std::uint32_t>> active;
  std::vector<std::uint32_t> truth;
};

struct Result {
  double loss = 0;
  std::vector<float> weight, bias, input;
  std::vector<int> calls;
};

Result run(const Problem& problem, int core_count) {
  const auto device = make_cpu_device<float>(core_count);
  const std::size_t inputs = problem.inputs;
  SampledSoftmax softmax(kLabels, inputs, kernels<BasicHostCores<float>>(*device));
  Result result{.weight = std::vector<float>(kLabels * inputs),
                .bias = std::vector<float>(kLabels),
                .input = {},
                .calls = std::vector<int>(kLabels)};
  const auto row = [&](std::size_t u) { return &problem.W[softmax.labels()[u] * inputs]; };
  softmax.begin(problem.active, problem.truth);
  softmax.scores(problem.A.data(), [&](std::size_t u, float*) -> SampledSoftmax::Row {
    return {row(u), problem.b[softmax.labels()[u]]};
  });
  result.loss = softmax.softmax() / Problem::kSamples;
  softmax.backward(problem.A.data(), row, [&](std::size_t u, const float* g, float gb) {
    const std::uint32_t l = softmax.labels()[u];
    std::copy_n(g, inputs, &result.weight[l * inputs]);
    result.bias[l] = gb;
    ++result.calls[l];
  });
  const auto input = softmax.input_gradient();
  result.input.assign(input.begin(), input.end());
  return result;
}

std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// With the active labels fixed the loss is a function of A, W and b: central differences in double.
// The columns of wide rows pass through registers in pieces; a stride prime to their number meets
// all of them.
TEST(SampledSoftmax, GradientIsThatOfTheLossOverActiveLabels) {
  constexpr double kStep = 1e-5;
  for (std::uint64_t seed = 1; seed <= 7; ++seed) {
    const bool wide = seed == 7;
    const std::size_t stride = wide ? 41 : 1;
    const double rounding = wide ? 2e-5 : 2e-6;
    const Problem problem(seed, wide ? kWide : kInputs);
    const Result found = run(problem, 1);
    std::vector<double> a = doubles(problem.A), w = doubles(problem.W), b = doubles(problem.b);
    EXPECT_NEAR(found.loss, problem.loss(a, w, b), 1e-5 * found.loss + 1e-7);
    const auto check = [&](std::vector<double>& x, const std::vector<float>& gradient) {
      for (std::size_t i = 0; i < x.size(); i += stride) {
        const double at = x[i];
        x[i] = at + kStep;
        const double above = problem.loss(a, w, b);
        x[i] = at - kStep;
        const double below = problem.loss(a, w, b);
        x[i] = at;
        const double expected = (above - below) / (2 * kStep);
        ASSERT_NEAR(gradient[i], expected, 1e-4 * std::abs(expected) + rounding) << "seed " << seed;
      }
    };
    check(a, found.input);
    check(w, found.weight);
    check(b, found.bias);
  }
}

// Each active label once, and no other; the shares of a sample sum to 0.
TEST(SampledSoftmax, EveryActiveLabelIsGivenOnce) {
  const Problem problem(11);
  const Result found = run(problem, 1);
  for (std::uint32_t l = 0; l < kLabels; ++l) {
    const bool is_active = std::ranges::any_of(problem.active, [&](const auto& labels) {
      return std::ranges::find(labels, l) != labels.end();
    });
    EXPECT_EQ(found.calls[l], is_active ? 1 : 0) << l;
  }
  EXPECT_NEAR(std::accumulate(found.bias.begin(), found.bias.end(), 0.0), 0, 1e-6);
}

// Cores share the labels: the sums of dA are in another order, a label's own are not.
TEST(SampledSoftmax, CoresShareTheLabels) {
  const Problem problem(12);
  const Result one = run(problem, 1), three = run(problem, 3);
  EXPECT_EQ(one.loss, three.loss);
  EXPECT_EQ(one.weight, three.weight);
  EXPECT_EQ(one.bias, three.bias);
  for (std::size_t i = 0; i < one.input.size(); ++i) {
    EXPECT_NEAR(one.input[i], three.input[i], 1e-6) << i;
  }
}

}  // namespace
}  // namespace hetsgd::test::sampled_softmax
