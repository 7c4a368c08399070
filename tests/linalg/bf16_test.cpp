// Products with factors in BF16 on CPUs (linalg/cpu/bf16.hpp): the bits of the definition, written
// here once more as plain loops with subnormal numbers flushed by hand.
#include "linalg/cpu/bf16.hpp"

#include <cfloat>
#include <numeric>

#include "linalg/convolution_cases.hpp"
#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr std::uint64_t kStep = 4099;  // a prime; every number would take minutes
#else
constexpr std::uint64_t kStep = 1;
#endif

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// The nearer of the two neighbours in BF16, the one with an even last bit if both are as near.
float nearest(float x) {
  if (std::isnan(x)) return of_bits(0x7FC00000u);
  if (std::abs(x) < FLT_MIN) return std::copysign(0.0F, x);
  if (std::isinf(x)) return x;
  const std::uint32_t below = bits_of(x) / 0x10000u * 0x10000u, rest = bits_of(x) - below;
  const bool odd = below / 0x10000u % 2 == 1;
  return of_bits(rest > 0x8000u || (rest == 0x8000u && odd) ? below + 0x10000u : below);
}

float flushed(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0F, x) : x; }

// S of n pairs of factors.
float sum_of_products(std::size_t n, const auto& a, const auto& b) {
  const auto product = [&](std::size_t k, float so_far) {
    const float x = k < n ? nearest(a(k)) : 0, y = k < n ? nearest(b(k)) : 0;
    return flushed(std::fma(x, y, so_far));
  };
  float S = 0;
  for (std::size_t block = 0; block < n; block += 32) {
    float even = 0, odd = 0;
    for (std::size_t k = block; k < block + 32; k += 2) {
      even = product(k, even);
      odd = product(k + 1, odd);
    }
    S = flushed(S + flushed(even + odd));
  }
  return S;
}

bool same(float x, float y) { return bits_of(x) == bits_of(y) || (std::isnan(x) && std::isnan(y)); }

TEST(Bf16, RoundsEveryFloat) {
  constexpr std::size_t kBatch = 1 << 12;
  std::vector<float> from(kBatch), to(kBatch);
  std::uint64_t next = 0;
  while (next < std::uint64_t{1} << 32) {
    for (float& x : from) {
      x = of_bits(static_cast<std::uint32_t>(next));
      next += kStep;
    }
    cpu::round_to_bf16(kBatch, from.data(), to.data());
    for (std::size_t i = 0; i < kBatch; ++i) {
      const float expected = nearest(from[i]);
      if (bits_of(to[i]) != bits_of(expected) || bits_of(cpu::bf16(from[i])) != bits_of(expected)) {
        FAIL() << std::hex << bits_of(from[i]) << " gives " << bits_of(to[i]) << " and "
               << bits_of(cpu::bf16(from[i])) << ", expected " << bits_of(expected);
      }
    }
  }
}

enum class Kind { plain, wide, any_bits };

std::vector<float> random_floats(std::size_t n, std::uint64_t seed, Kind kind) {
  RandomStream random(seed, Purpose::test);
  std::vector<float> values(n);
  for (float& x : values) {
    x = static_cast<float>(random.uniform(-1, 1));
    if (kind == Kind::wide) x = std::ldexp(x, static_cast<int>(random.below(120)) - 70);
    if (kind == Kind::any_bits) x = of_bits(static_cast<std::uint32_t>(random.below(1ULL << 32)));
  }
  return values;
}

struct Shape {
  std::size_t m, n, k;
};
// Ragged tiles, panels and blocks, several chunks of k, groups of rows and blocks of columns.
const Shape kShapes[] = {{1, 1, 1},     {5, 33, 31},     {3, 17, 32},   {13, 70, 257},
                         {2, 40, 0},    {260, 37, 300},  {30, 600, 40}, {7, 20, 999},
                         {1030, 5, 64}, {1100, 530, 290}};

TEST(Bf16, ProductsHaveTheBitsOfTheDefinition) {
  const auto one = make_cpu_device<float>(1, Precision::bf16),
             three = make_cpu_device<float>(3, Precision::bf16);
  for (const Shape& shape : kShapes) {
    const std::size_t m = shape.m, n = shape.n, k = shape.k;
    const bool large = m * n > 100000;
    for (const Kind kind : {Kind::plain, Kind::wide, Kind::any_bits}) {
      for (const int transposed : {0, 1, 2, 3}) {
        if (large && (kind != Kind::plain || transposed != 1)) continue;
        SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k << " " << transposed);
        const bool at = transposed % 2 == 1, bt = transposed > 1;
        const auto A = random_floats(m * k, 1, kind), B = random_floats(k * n, 2, kind);
        const auto before = random_floats(m * n, 3, Kind::plain);
        const float alpha = bt ? -0.75F : 1, beta = at ? 0.3F : 0;
        const auto multiply = [&](Device& device) {
          auto C = before;
          device.gemm(at ? Transpose::yes : Transpose::no, bt ? Transpose::yes : Transpose::no, m,
                      n, k, alpha, A.data(), at ? m : k, B.data(), bt ? k : n, beta, C.data(), n);
          return C;
        };
        const auto C = multiply(*one);
        EXPECT_TRUE(std::ranges::equal(C, multiply(*three), same))
            << "the bits depend on the cores";
        const std::size_t step = large ? 97 : 1;
        for (std::size_t e = 0; e < m * n; e += step) {
          const std::size_t i = e / n, j = e % n;
          const float S = sum_of_products(
              k, [&](auto q) { return at ? A[q * m + i] : A[i * k + q]; },
              [&](auto q) { return bt ? B[j * k + q] : B[q * n + j]; });
          const float expected = beta == 0 ? alpha * S : std::fma(beta, before[e], alpha * S);
          ASSERT_TRUE(same(C[e], expected)) << i << ", " << j << ": " << C[e] << " " << expected;
        }
      }
    }
  }
}

// With one factor the definition is S = flush(a b), alone in its C.
TEST(Bf16, ResultsMayBeSubnormalAgainAfterTheProduct) {
  const auto device = make_cpu_device<float>(1, Precision::bf16);
  const auto product = [&](float a, float b, float alpha, float beta, float C) {
    device->gemm(Transpose::no, Transpose::no, 1, 1, 1, alpha, &a, 1, &b, 1, beta, &C, 1);
    return C;
  };
  EXPECT_EQ(product(1, FLT_MIN, 0.25F, 0, 0), 0.25F * FLT_MIN);
  EXPECT_EQ(product(1, 0, 1, 1, 0.5F * FLT_MIN), 0.5F * FLT_MIN);
  EXPECT_EQ(product(0.5F, FLT_MIN, 1, 0, 0), 0);   // the product itself is flushed
  EXPECT_EQ(product(1, FLT_MIN / 2, 1, 0, 0), 0);  // and a subnormal factor
}

TEST(Bf16, DenseLayersAddBiasesAndMasksInFp32) {
  constexpr std::size_t kRows = 9, kOut = 35, kIn = 70;
  const auto device = make_cpu_device<float>(1, Precision::bf16);
  const auto X = random_floats(kRows * kIn, 1, Kind::plain),
             W = random_floats(kOut * kIn, 2, Kind::plain), b = random_floats(kOut, 3, Kind::plain),
             D = random_floats(kRows * kOut, 4, Kind::plain);
  std::vector<float> Y(kRows * kOut), dX(kRows * kIn), sums(kIn);
  device->dense_relu(kRows, kOut, kIn, X.data(), W.data(), b.data(), Y.data());
  device->dense_relu_backward(kRows, kIn, kOut, D.data(), W.data(), X.data(), dX.data(), 1,
                              sums.data());
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kOut; ++j) {
      const float z = b[j] + sum_of_products(
                                 kIn, [&](auto k) { return X[i * kIn + k]; },
                                 [&](auto k) { return W[j * kIn + k]; });
      EXPECT_EQ(Y[i * kOut + j], z < 0 ? 0 : z);
    }
    for (std::size_t j = 0; j < kIn; ++j) {
      const float d = sum_of_products(
          kOut, [&](auto k) { return D[i * kOut + k]; }, [&](auto k) { return W[k * kIn + j]; });
      EXPECT_EQ(dX[i * kIn + j], X[i * kIn + j] <= 0 ? 0 : d);
    }
  }
}

// Operands that BF16 holds exactly are not rounded, so the sums are as near to the definition in
// double as those in FP32.
TEST(Bf16, ConvolutionsOfExactOperandsAreTheirDefinition) {
  for (const auto& [what, shape, n] : kConvolutionCases) {
    SCOPED_TRACE(what);
    const RandomConvolution<float> convolution(shape, n, nearest);
    const auto one = make_cpu_device<float>(1, Precision::bf16),
               three = make_cpu_device<float>(3, Precision::bf16);
    const auto check = [&](auto& side) { convolution.check(side); };
    EXPECT_TRUE(same_bits(on_device(*one, check), on_device(*three, check)));
  }
}

TEST(Bf16, ConvolutionsRoundTheirOperands) {
  const ConvolutionShape s = convolution_of(5, 9, 8, 7, 3, 3, 2, 1, 1, 1);
  const RandomConvolution<float> exact(s, 3, nearest), plain(s, 3);
  const auto device = make_cpu_device<float>(2, Precision::bf16);
  auto& convolution = kernels<ConvolutionKernels>(*device);
  std::vector<float> of_exact(3 * s.outputs()), of_plain(3 * s.outputs());
  convolution.forward(s, 3, exact.x.data(), exact.w.data(), nullptr, of_exact.data());
  convolution.forward(s, 3, plain.x.data(), plain.w.data(), nullptr, of_plain.data());
  EXPECT_EQ(of_exact, of_plain);
}

// The output layer's gradients in BF16 and in FP32 differ by what the rounding of both factors of
// each product allows: 2^-8 of the sum of |a| |b|, once for the logits, once for the gradient.
class Bf16OutputLayer : public ::testing::TestWithParam<LayerShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, Bf16OutputLayer,
                         ::testing::Values(LayerShape{1, 3, 5}, LayerShape{33, 40, 70},
                                           LayerShape{70, 128, 1000}, LayerShape{300, 17, 45}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.rows) + "x" +
                                  std::to_string(shape.param.inputs) + "x" +
                                  std::to_string(shape.param.outputs);
                         });

TEST_P(Bf16OutputLayer, IsNearFp32AndHasTheSameBitsTwice) {
  const LayerProblem<float> problem(GetParam(), 0.25);
  const auto step = [&](auto& side) { problem.run(side, -0.5, 1, true).take(side); };
  const auto plain = make_cpu_device<float>(1),
             rounded = make_cpu_device<float>(1, Precision::bf16),
             two = make_cpu_device<float>(2, Precision::bf16);
  const Results expected = on_device(*plain, step), found = on_device(*rounded, step);
  on_device(*two, step);
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_NEAR(found[0][0], expected[0][0], 0.01 * std::abs(expected[0][0]));
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LT(relative_error(found[i], expected[i]), 0.01) << i;
    EXPECT_GT(relative_error(found[i], expected[i]), 1e-7) << i << " was not rounded";
  }
}

// The layer of some samples of A; D are the gradients by the logits. The gradients of the biases
// are D of a single sample, and are not rounded.
struct Rows {
  explicit Rows(std::size_t count) : n(count), A(random_floats(n * kInputs, 1, Kind::plain)) {}

  void run(Device& device, std::size_t first, std::size_t rows) {
    std::vector<std::uint64_t> begin(rows + 1);
    std::iota(begin.begin(), begin.end(), std::uint64_t{0});
    std::vector<std::uint32_t> label(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      label[r] = static_cast<std::uint32_t>((first + r) * 29 % kOutputs);
    }
    kernels<BasicOutputLayerKernels<float>>(device).softmax_layer(
        {rows, kOutputs, nullptr, begin.data(), label.data()}, {.inputs = kInputs,
                                                                .outputs = kOutputs,
                                                                .input = A.data() + first * kInputs,
                                                                .weight = W.data(),
                                                                .bias = b.data(),
                                                                .scale = 1,
                                                                .alpha = 1,
                                                                .beta = 0,
                                                                .weight_gradient = G.data(),
                                                                .bias_gradient = g.data(),
                                                                .input_gradient = dA.data()});
  }

  static constexpr std::size_t kInputs = 70, kOutputs = 1100;  // three blocks of labels
  std::size_t n;
  std::vector<float> A;
  std::vector<float> W = random_floats(kOutputs * kInputs, 2, Kind::plain),
                     b = random_floats(kOutputs, 3, Kind::plain);
  std::vector<float> G = std::vector<float>(kOutputs * kInputs), g = std::vector<float>(kOutputs),
                     dA = std::vector<float>(n * kInputs);
};

TEST(Bf16, GradientsOfTheOutputLayerHaveTheBitsOfTheDefinition) {
  constexpr std::size_t kRows = 41;
  const auto device = make_cpu_device<float>(1, Precision::bf16);
  Rows rows(kRows);
  std::vector<std::vector<float>> D;
  for (std::size_t r = 0; r < kRows; ++r) {
    rows.run(*device, r, 1);
    D.push_back(rows.g);
  }
  rows.run(*device, 0, kRows);
  for (std::size_t h = 0; h < Rows::kInputs; h += 3) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const float expected = sum_of_products(
          Rows::kOutputs, [&](auto l) { return D[r][l]; },
          [&](auto l) { return rows.W[l * Rows::kInputs + h]; });
      ASSERT_EQ(rows.dA[r * Rows::kInputs + h], expected) << r << ", " << h;
    }
    for (std::size_t l = 0; l < Rows::kOutputs; ++l) {
      const float expected = sum_of_products(
          kRows, [&](auto r) { return D[r][l]; },
          [&](auto r) { return rows.A[r * Rows::kInputs + h]; });
      ASSERT_EQ(rows.G[l * Rows::kInputs + h], expected) << l << ", " << h;
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
