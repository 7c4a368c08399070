// The algorithm of the fused softmax layer without a GPU: it computes the softmax layer.
#include "linalg/fused_reference.hpp"

namespace hetsgd::test {
namespace {

FusedResult by_cpu_device(const FusedProblem& p) {
  const auto device = make_cpu_device<double>(1);
  const auto A = widen(p.A), W = widen(p.W), b = widen(p.b);
  FusedResult to{{}, std::vector<double>(A.size()), widen(p.G), widen(p.g)};
  const SparseRows<double> labels{p.rows,         p.outputs,       nullptr,
                                  p.begin.data(), p.labels.data(), nullptr};
  to.loss = {output_kernels(*device).softmax_layer(device->stage(labels),
                                                   {.inputs = cuda::kFusedInputs,
                                                    .outputs = p.outputs,
                                                    .input = A.data(),
                                                    .weight = W.data(),
                                                    .bias = b.data(),
                                                    .scale = double(p.scale),
                                                    .alpha = double(p.alpha),
                                                    .beta = double(p.beta),
                                                    .weight_gradient = to.G.data(),
                                                    .bias_gradient = to.g.data(),
                                                    .input_gradient = to.dA.data()})};
  return to;
}

void expect_equal(const FusedResult& found, const FusedResult& expected, double tolerance) {
  expect_close(found.dA, expected.dA, tolerance, "dA");
  expect_close(found.G, expected.G, tolerance, "G");
  expect_close(found.g, expected.g, tolerance, "g");
}

TEST(FusedReference, IsTheSoftmaxLayer) {
  for (const std::size_t rows : {1, 63, 65, 130}) {
    for (const std::size_t outputs : {1, 63, 96, 97, 400}) {
      for (const Labels labels : {Labels::none, Labels::some, Labels::many, Labels::shared}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << outputs << ", " << int(labels));
        const FusedProblem p({.rows = rows, .outputs = outputs, .labels = labels, .beta = 0.5F},
                             rows);
        const FusedResult found =
            FusedReference(p, cuda::plan_fused(rows, outputs, 3), kUnrounded).result();
        const FusedResult defined = fused_by_definition(p), computed = by_cpu_device(p);
        expect_equal(found, defined, 1e-12);
        expect_close(found.loss, defined.loss, 1e-12, "loss");
        expect_equal(found, computed, 1e-12);
        double loss = 0;
        for (const double each : found.loss) loss += each;
        EXPECT_NEAR(loss, computed.loss[0], 1e-12 * std::max(1.0, std::abs(loss)));
      }
    }
  }
}

TEST(FusedReference, RoundsAsTheFormatsDo) {
  EXPECT_EQ(kFp16(1 + 0x1p-11), 1);  // a tie, to even
  EXPECT_EQ(kFp16(1 + 0x3p-11), 1 + 0x2p-10);
  EXPECT_EQ(kFp16(0x1p-25), 0);
  EXPECT_EQ(kFp16(-0x3p-26), -0x1p-24);
  EXPECT_EQ(kFp16(65519), 65504);
  EXPECT_EQ(kFp16(-65520), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(kBf16(1 + 0x1p-8), 1);
  EXPECT_EQ(kBf16(1 + 0x3p-8), 1 + 0x2p-7);
  EXPECT_EQ(kUnrounded(0.1), 0.1);
}

}  // namespace
}  // namespace hetsgd::test
