// FP32 layers whose products are made of halves (linalg/cuda/split.hpp).
#include <cmath>
#include <limits>

#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

std::unique_ptr<Device> gpu_with_halves(std::size_t from, std::size_t kept = 0,
                                        std::size_t block = 0) {
  return make_cuda_device<float>(
      0, {.logit_bytes = kept, .logit_block_bytes = block, .split_from_logits = from});
}

// loss, dW, db, dA beside the definition; relative errors.
std::vector<double> errors_of(Device& device, const LayerProblem<float>& p,
                              const LayerReference& e) {
  Side<float> side{device};
  const auto found = p.run(side, 1, 0, false);
  std::vector<double> errors{std::abs(found.loss - e.loss) / std::abs(e.loss)};
  for (const auto& [buffer, exact] :
       {std::pair{&found.G, &e.dW}, {&found.g, &e.db}, {&found.dA, &e.dA}}) {
    side.take(*buffer);
    errors.push_back(relative_error(side.results.back(), *exact));
  }
  return errors;
}

// Halves have 22 significant bits, and FP32 sums round as often in both ways: four units of FP32.
TEST(CudaSplit, IsAsExactAsFp32) {
  for (const auto& [shape, spread] : {std::pair{LayerShape{64, 128, 3000}, 1.0},
                                      {LayerShape{40, 32, 5000}, 1e-3},
                                      {LayerShape{33, 8, 2000}, 3.0},
                                      {LayerShape{1, 40, 700}, 1.0}}) {
    const LayerProblem<float> p(shape, spread);
    const LayerReference e = layer_by_definition(p);
    const auto halves = errors_of(*gpu_with_halves(1), p, e),
               full = errors_of(*gpu_with_halves(kNever), p, e);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      EXPECT_LT(halves[i], 2 * full[i] + std::ldexp(1, -22)) << shape.outputs << ", " << i;
    }
  }
}

// Small numbers count beside large ones of the same matrix: their rows stand alone.
TEST(CudaSplit, KeepsSmallNumbersBesideLargeOnes) {
  LayerProblem<float> p({32, 64, 1500});
  for (std::size_t i = 0; i < p.A.size(); ++i) p.A[i] *= i / 64 % 2 == 0 ? 1.0F : 1e-3F;
  for (std::size_t i = 0; i < p.W.size(); ++i) p.W[i] *= i / 64 % 3 == 0 ? 1e-4F : 1.0F;
  const LayerReference e = layer_by_definition(p);
  for (const double error : errors_of(*gpu_with_halves(1), p, e)) EXPECT_LT(error, 1e-6);
}

TEST(CudaSplit, UpdatesInPlaceBlockByBlock) {
  const LayerProblem<float> p({70, 16, 9000});
  const std::size_t block = 4096 * p.shape.rows * sizeof(float);
  const auto full = gpu_with_halves(kNever);
  Side<float> expected{*full};
  p.run(expected, -0.5, 1, true).take(expected);
  std::vector<Results> results;
  for (const std::size_t kept : {3 * block, 2 * block, std::size_t{1}}) {
    const auto device = gpu_with_halves(1, kept, block);
    for (int call = 0; call < 2; ++call) {
      Side<float> side{*device};
      p.run(side, -0.5, 1, true).take(side);
      results.push_back(side.results);
      EXPECT_EQ(results.back(), results.front());
    }
  }
  for (std::size_t i = 0; i < expected.results.size(); ++i) {
    expect_close(results[0][i], expected.results[i], kTolerance<float>, "in blocks");
  }
}

// Rounded operands, so that scores are exact and many are equal.
TEST(CudaSplit, RanksLabels) {
  LayerProblem<float> p({40, 8, 9000});
  for (auto* const each : {&p.A, &p.W, &p.b}) {
    for (float& x : *each) x = std::round(3 * x);
  }
  const auto device = gpu_with_halves(1, 0, 4096 * p.shape.rows * sizeof(float));
  Side<float> side{*device};
  for (const std::size_t k : {1UL, 5UL, 16UL}) {
    EXPECT_EQ(p.rank(side, k).top, p.rank_all_at_once(k).top);
  }
}

// A model that diverged ends in a loss that is not finite, and one that is 0 in uniform scores.
TEST(CudaSplit, TakesNumbersThatHaveNoScale) {
  LayerProblem<float> p({16, 8, 600});
  const auto device = gpu_with_halves(1);
  {
    LayerProblem<float> zero = p;
    for (auto* const each : {&zero.A, &zero.W, &zero.b})
      std::fill(each->begin(), each->end(), 0.0F);
    Side<float> side{*device};
    EXPECT_NEAR(zero.run(side, 1, 0, false).loss, layer_by_definition(zero).loss, 1e-4);
  }
  for (const float bad : {std::numeric_limits<float>::infinity(), kNan}) {
    LayerProblem<float> broken = p;
    broken.W[5] = bad;
    Side<float> side{*device};
    EXPECT_FALSE(std::isfinite(double{broken.run(side, 1, 0, false).loss}));
  }
}

}  // namespace
}  // namespace hetsgd::test
