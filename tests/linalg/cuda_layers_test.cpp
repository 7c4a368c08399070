// Properties of a GPU's output layer alone: its losses are read late, and its logits are kept in
// part.
#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaLayers : public ::testing::Test {};
TYPED_TEST_SUITE(CudaLayers, RealTypes);

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
  EXPECT_NEAR(loss, expected.loss, kTolerance<TypeParam> * expected.loss);
  EXPECT_EQ(double{loss}, double{loss});
  output_kernels(device).softmax_loss(Y, 900, nullptr, Z.data());
  EXPECT_THROW(static_cast<void>(double{loss}), CheckFailure);
}

// Three blocks of labels: all kept, one kept, none kept; beside the layer in one block.
TYPED_TEST(CudaLayers, LogitsThatAreNotKeptGiveTheSameBits) {
  const LayerProblem<TypeParam> problem({70, 6, 9000});
  const std::size_t block = 4096 * problem.shape.rows * sizeof(TypeParam);
  Side<TypeParam> whole{gpu<TypeParam>()};
  problem.run(whole, -0.5, 1, true).take(whole);
  std::vector<Results> results;
  for (const std::size_t kept : {3 * block, 2 * block, std::size_t{1}}) {
    const auto device =
        make_cuda_device<TypeParam>(0, {.logit_bytes = kept, .logit_block_bytes = block});
    Side<TypeParam> side{*device};
    problem.run(side, -0.5, 1, true).take(side);
    results.push_back(side.results);
    EXPECT_EQ(results.back(), results.front());
  }
  for (std::size_t i = 0; i < whole.results.size(); ++i) {
    expect_close(results[0][i], whole.results[i], kTolerance<TypeParam>, "in blocks");
  }
}

// Three blocks of labels, rounded operands, so that many scores are equal.
TYPED_TEST(CudaLayers, LabelsAreRankedBlockByBlock) {
  using Real = TypeParam;
  LayerProblem<Real> problem({40, 6, 9000});
  for (auto* const each : {&problem.A, &problem.W, &problem.b}) {
    for (Real& x : *each) x = std::round(3 * x);
  }
  const auto device =
      make_cuda_device<Real>(0, {.logit_block_bytes = 4096 * problem.shape.rows * sizeof(Real)});
  Side<Real> side{*device};
  const auto check = [&] {
    for (const std::size_t k : {1UL, 3UL, 5UL, 16UL}) {
      EXPECT_EQ(problem.rank(side, k).top, problem.rank_all_at_once(k).top);
    }
  };
  check();
  // Parts of the labels that hold no number above minus infinity, and then hardly any that does.
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  const Real infinity = std::numeric_limits<Real>::infinity();
  for (std::size_t i = 0; i < 9000; ++i) {
    if (i < 700 || i % 1000 > 200) problem.b[i] = i % 700 < 300 ? nan : -infinity;
  }
  check();
  for (std::size_t i = 0; i < 9000; ++i) {
    if (i != 5000 && i != 8999) problem.b[i] = i % 700 < 600 ? nan : -infinity;
  }
  check();
  for (Real& b : problem.b) b = nan;
  check();
}

}  // namespace
}  // namespace hetsgd::test
