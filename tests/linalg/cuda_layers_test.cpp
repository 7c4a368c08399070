// Layers, losses and ranks on a GPU.
#include "linalg/cuda_compare.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaLayers : public ::testing::Test {};
TYPED_TEST_SUITE(CudaLayers, RealTypes);

TYPED_TEST(CudaLayers, DenseLayers) {
  for (const std::size_t rows : {0UL, 1UL, 63UL, 300UL}) {
    for (const std::size_t n : {1UL, 33UL, 128UL, 983UL}) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << n);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        auto values = random_vector<float>(rows * n, 1);
        if (rows > 1) values[n] = kNan;  // stays
        auto Y = side.put(values), D = side.put(random_vector<float>(rows * n, 2));
        auto bias = side.put(random_vector<float>(n, 3));
        side.device.column_sums(rows, n, Real(0.5), D.data(), bias.data());
        side.take(bias);
        side.device.bias_relu(rows, n, bias.data(), Y.data());
        side.take(Y);
        side.device.relu_gradient_sums(rows, n, Real(-0.3), Y.data(), D.data(), bias.data());
        side.take(D);
        side.take(bias);
      });
    }
  }
}

TYPED_TEST(CudaLayers, SoftmaxAndSigmoidRows) {
  for (const std::size_t rows : {0UL, 1UL, 40UL, 130UL}) {
    for (const std::size_t n : {1UL, 40UL, 983UL, 4097UL, 9000UL}) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << n);
      const RandomSparse labels(rows, n, 6, 4);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        const auto Y = side.stage(labels, false);
        auto bias = side.put(random_vector<float>(n, 1));
        for (Real* const b : {bias.data(), static_cast<Real*>(nullptr)}) {
          auto Z = side.put(random_vector<float>(rows * n, 2, -20, 20));
          side.take(output_kernels(side.device).softmax_loss(Y, n, b, Z.data()));
          side.take(Z);
          auto G = side.put(random_vector<float>(rows * n, 2, -20, 20));
          side.take(
              output_kernels(side.device).softmax_cross_entropy(Y, n, b, Real(0.125), G.data()));
          side.take(G);
          auto z = side.put(random_vector<float>(rows * n, 3, -90, 90));
          side.take(output_kernels(side.device).sigmoid_loss(Y, n, b, z.data()));
          side.take(z);
          side.take(
              output_kernels(side.device).sigmoid_cross_entropy(Y, n, b, Real(0.5), z.data()));
          side.take(z);
        }
      });
    }
  }
}

TYPED_TEST(CudaLayers, DivergedLogitsShowInTheLoss) {
  const RandomSparse labels(6, 5000, 4, 1);
  for (const float broken : {kNan, std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0UL, 4999UL, 5000UL * 5 + 100}) {
      Side<TypeParam> side{gpu<TypeParam>()};
      auto logits = random_vector<float>(6 * 5000, 1);
      for (std::size_t row = 0; row < 6; ++row) logits[row * 5000 + at % 5000] = broken;
      const auto Y = side.stage(labels, false);
      auto Z = side.put(logits), G = side.put(logits);
      EXPECT_TRUE(std::isnan(output_kernels(side.device).softmax_loss(Y, 5000, nullptr, Z.data())));
      EXPECT_TRUE(std::isnan(output_kernels(side.device)
                                 .softmax_cross_entropy(Y, 5000, nullptr, TypeParam(1), G.data())));
    }
  }
}

struct GpuLayerShape {
  std::size_t rows, inputs, outputs;
};

const GpuLayerShape kGpuLayerShapes[] = {{1, 1, 1},      {5, 7, 9},       {64, 128, 983},
                                         {33, 40, 4097}, {300, 50, 9000}, {40, 300, 1111},
                                         {0, 8, 20}};

template <class S>
void layer_on(S& side, const GpuLayerShape& s, const RandomSparse& labels, double alpha,
              double beta, bool in_place) {
  using Real = typename S::Real;
  auto A = side.put(random_vector<float>(s.rows * s.inputs, 2));
  auto W = side.put(random_vector<float>(s.outputs * s.inputs, 3));
  auto b = side.put(random_vector<float>(s.outputs, 4));
  const float old = beta == 0 ? kNan : 0.5F;
  auto G = side.put(std::vector<float>(W.size(), old));
  auto g = side.put(std::vector<float>(b.size(), old));
  auto dA = side.put(std::vector<float>(A.size(), kNan));
  side.take(output_kernels(side.device)
                .softmax_layer(side.stage(labels, false),
                               {.inputs = s.inputs,
                                .outputs = s.outputs,
                                .input = A.data(),
                                .weight = W.data(),
                                .bias = b.data(),
                                .scale = Real(1) / Real(8),
                                .alpha = Real(alpha),
                                .beta = Real(beta),
                                .weight_gradient = in_place ? W.data() : G.data(),
                                .bias_gradient = in_place ? b.data() : g.data(),
                                .input_gradient = dA.data()}));
  side.take(in_place ? W : G);
  side.take(in_place ? b : g);
  side.take(dA);
}

TYPED_TEST(CudaLayers, SoftmaxLayerInAllItsUses) {
  for (const GpuLayerShape& s : kGpuLayerShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
    const RandomSparse labels(s.rows, s.outputs, 4, 1);
    compare<TypeParam>([&](auto& side) { layer_on(side, s, labels, 1, 0, false); });
    compare<TypeParam>([&](auto& side) { layer_on(side, s, labels, 2, 0.5, false); });
    compare<TypeParam>([&](auto& side) { layer_on(side, s, labels, -0.5, 1, true); });
  }
}

// Whole numbers, so that every score is exact and many are equal: the best labels are those of the
// CPU to the last tie. Several pieces of a block, and several blocks.
TYPED_TEST(CudaLayers, MeasuresAnOutputLayerWithoutAllItsScores) {
  struct Shape {
    std::size_t rows, inputs, outputs, k;
  };
  for (const Shape& s : {Shape{0, 3, 20, 5},
                         {1, 1, 1, 1},
                         {33, 7, 4097, 5},
                         {5, 6, 40'000, 16},
                         {1030, 3, 9000, 5}}) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
    const RandomSparse labels(s.rows, s.outputs, 3, 1);
    const auto whole_numbers = [](std::size_t n, std::uint64_t seed) {
      auto v = random_vector<float>(n, seed, -3, 3);
      for (float& x : v) x = std::round(x);
      return v;
    };
    std::vector<std::vector<std::uint32_t>> tops;
    const auto measure = [&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto A = side.put(whole_numbers(s.rows * s.inputs, 2));
      auto W = side.put(whole_numbers(s.outputs * s.inputs, 3));
      auto b = side.put(whole_numbers(s.outputs, 4));
      auto* const top =
          static_cast<std::uint32_t*>(side.device.allocate(s.rows * s.k * sizeof(std::uint32_t)));
      const SoftmaxLayer<Real> layer{.inputs = s.inputs,
                                     .outputs = s.outputs,
                                     .input = A.data(),
                                     .weight = W.data(),
                                     .bias = b.data()};
      side.take(
          output_kernels(side.device).softmax_ranks(side.stage(labels, false), layer, s.k, top));
      auto& host = tops.emplace_back(s.rows * s.k);
      side.device.download(host.data(), top, host.size() * sizeof(std::uint32_t));
      side.device.release(top);
    };
    compare<TypeParam>(measure);
    ASSERT_EQ(tops.size(), 3U);  // the CPU's, the GPU's twice
    EXPECT_EQ(tops[1], tops[0]);
    EXPECT_EQ(tops[2], tops[0]);
  }
}

// A loss may be read long after its call, but not after the next one.
TYPED_TEST(CudaLayers, ALossWaitsUntilItIsRead) {
  auto& device = gpu<TypeParam>();
  Side<TypeParam> side{device};
  const RandomSparse labels(40, 900, 4, 1);
  const auto Y = side.stage(labels, false);
  auto Z = side.put(random_vector<float>(40 * 900, 2)), G = side.put(random_vector<float>(900, 3));
  const DeferredSum loss = output_kernels(device).softmax_loss(Y, 900, nullptr, Z.data());
  for (int i = 0; i < 20; ++i) device.axpby(900, TypeParam(1), Z.data(), TypeParam(0), G.data());
  const auto expected =
      softmax_reference(40, 900, widen(random_vector<float>(40 * 900, 2)), labels.dense(false), 1);
  EXPECT_NEAR(loss, expected.loss, kClose<TypeParam> * expected.loss);
  EXPECT_EQ(double{loss}, double{loss});
  output_kernels(device).softmax_loss(Y, 900, nullptr, Z.data());
  EXPECT_THROW(static_cast<void>(double{loss}), CheckFailure);
}

// Three blocks of labels: all kept, one kept, none kept; beside the layer in one block.
TYPED_TEST(CudaLayers, LogitsThatAreNotKeptGiveTheSameBits) {
  const GpuLayerShape s{70, 6, 9000};
  const RandomSparse labels(s.rows, s.outputs, 4, 1);
  const std::size_t block = 4096 * s.rows * sizeof(TypeParam);
  Side<TypeParam> whole{gpu<TypeParam>()};
  layer_on(whole, s, labels, -0.5, 1, true);
  std::vector<Results> results;
  for (const std::size_t kept : {3 * block, 2 * block, std::size_t{1}}) {
    const auto device =
        make_cuda_device<TypeParam>(0, {.logit_bytes = kept, .logit_block_bytes = block});
    Side<TypeParam> side{*device};
    layer_on(side, s, labels, -0.5, 1, true);
    results.push_back(side.results);
    EXPECT_EQ(results.back(), results.front());
  }
  for (std::size_t i = 0; i < whole.results.size(); ++i) {
    expect_close(results[0][i], whole.results[i], kClose<TypeParam>, "in blocks");
  }
}

TYPED_TEST(CudaLayers, TopK) {
  const auto cpu = make_cpu_device<TypeParam>(1);
  for (const std::size_t n : {1UL, 5UL, 16UL, 17UL, 983UL, 16'385UL, 60'000UL}) {
    for (const std::size_t k : {1UL, 3UL, 5UL, 16UL}) {
      for (const std::size_t rows : {0UL, 1UL, 30UL}) {
        if (k > n) continue;
        std::vector<float> Z = random_vector<float>(rows * n, 1);
        for (std::size_t i = 0; i < Z.size(); ++i) Z[i] = std::round(Z[i] * 50);  // ties
        for (std::size_t i = 0; i < Z.size(); i += 11) Z[i] = kNan;
        Side<TypeParam> here{*cpu}, there{gpu<TypeParam>()};
        std::vector<std::uint32_t> expected(rows * k), actual(rows * k);
        output_kernels(*cpu).top_k(rows, n, here.put(Z).data(), k, expected.data());
        const auto logits = there.put(Z);
        output_kernels(there.device).top_k(rows, n, logits.data(), k, actual.data());
        EXPECT_EQ(actual, expected) << rows << "x" << n << ", k " << k;
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
