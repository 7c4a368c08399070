// The softmax of gathered rows in groups, on CPUs: the bits are those of all rows at once.
#include <gtest/gtest.h>

#include <numeric>

#include "core/random.hpp"
#include "linalg/cpu/softmax_layer.hpp"

namespace hetsgd::test {
namespace {

constexpr std::size_t kRows = 700, kInputs = 40, kOutputs = 300;  // groups of 256, 256 and 188

template <class Real>
struct Layer {
  explicit Layer(bool with_bias) : bias(with_bias) {
    RandomStream random(4, Purpose::test);
    for (auto* numbers : {&A, &W, &b}) {
      for (Real& x : *numbers) x = static_cast<Real>(random.uniform(-1, 1));
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      row.push_back(3 * r / 2);
      target.push_back(static_cast<std::uint32_t>(random.below(kOutputs)));
    }
    std::iota(begin.begin(), begin.end(), std::uint64_t{0});
  }

  // The loss, and in A, W and b the gradient by the input and the weights after a step.
  std::vector<Real> step(cpu::SoftmaxLayerKernel<Real>& kernel, const cpu::Cores& cores,
                         bool in_place) {
    std::vector<Real> dA(A.size()), G(W.size()), g(b.size());
    const double loss = kernel.run(cores, {kRows, kOutputs, nullptr, begin.data(), target.data()},
                                   {.inputs = kInputs,
                                    .outputs = kOutputs,
                                    .row = row.data(),
                                    .input = A.data(),
                                    .weight = W.data(),
                                    .bias = bias ? b.data() : nullptr,
                                    .smoothing = Real(0.1),
                                    .scale = Real(0.01),
                                    .alpha = Real(-0.5),
                                    .beta = Real(in_place ? 1 : 0),
                                    .weight_gradient = in_place ? W.data() : G.data(),
                                    .bias_gradient = in_place ? b.data() : g.data(),
                                    .input_gradient = dA.data()});
    std::vector<Real> all{static_cast<Real>(loss)};
    for (const auto* numbers : {&dA, &W, &b, &G, &g}) {
      all.insert(all.end(), numbers->begin(), numbers->end());
    }
    return all;
  }

  bool bias;
  std::vector<Real> A = std::vector<Real>(2 * kRows * kInputs);
  std::vector<Real> W = std::vector<Real>(kOutputs * kInputs);
  std::vector<Real> b = std::vector<Real>(kOutputs);
  std::vector<std::uint32_t> row, target;
  std::vector<std::uint64_t> begin = std::vector<std::uint64_t>(kRows + 1);
};

template <class Real>
void expect_same_bits() {
  for (const bool bias : {false, true}) {
    for (const bool in_place : {false, true}) {
      for (const int count : {1, 3}) {
        const cpu::Cores cores(count);
        cpu::SoftmaxLayerKernel<Real> whole, groups(1);
        EXPECT_EQ(Layer<Real>(bias).step(groups, cores, in_place),
                  Layer<Real>(bias).step(whole, cores, in_place))
            << bias << in_place << count;
      }
    }
  }
}

TEST(SoftmaxGroups, HaveTheBitsOfAllRowsAtOnce) {
  expect_same_bits<float>();
  expect_same_bits<double>();
}

}  // namespace
}  // namespace hetsgd::test
