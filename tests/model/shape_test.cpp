#include "model/mlp.hpp"

namespace hetsgd {
namespace {

std::unique_ptr<Model> mlp(const DataShape& data, std::vector<std::uint64_t> hidden) {
  return make_mlp<float>(data, {.hidden = std::move(hidden)});
}

TEST(Layout, BlocksFollowEachOtherWithoutGaps) {
  const auto model = mlp({100, 30}, {16, 8});
  const Layout& layout = model->layout();
  std::size_t next = 0;
  const auto expect = [&](std::size_t i, const char* name, std::size_t rows, std::size_t cols,
                          bool sparse) {
    const ParameterBlock& block = layout.blocks.at(i);
    EXPECT_EQ(block.name, name);
    EXPECT_EQ(block.rows, rows);
    EXPECT_EQ(block.cols, cols);
    EXPECT_EQ(block.row_sparse(), sparse);
    EXPECT_EQ(block.offset, next);
    next += rows * cols;
  };
  expect(0, "layer0.weight", 100, 16, true);
  expect(1, "layer0.bias", 1, 16, false);
  expect(2, "layer1.weight", 8, 16, false);
  expect(3, "layer1.bias", 1, 8, false);
  expect(4, "layer2.weight", 30, 8, false);
  expect(5, "layer2.bias", 1, 30, false);
  EXPECT_EQ(layout.blocks.size(), 6U);
  EXPECT_EQ(layout.size, next);
  EXPECT_EQ(layout.real_size, static_cast<double>(next));
  EXPECT_EQ(layout.sparse, 1U);
}

// By hand, for 10 samples with 50 nonzeros and 20 labels, 16 hidden units, 30 labels.
TEST(Work, MatchesTheTableByHand) {
  const Work g = mlp({100, 30}, {16})->gradient_work({10, 50, 20});
  const double products = 2.0 * 10 * 16 * 30;
  // layer 0: forward, backward, bias sums; output: three products, bias sums; ReLU; loss
  EXPECT_DOUBLE_EQ(g.operations, 2 * 50 * 16 + 2 * 50 * 16 + 10 * 16 + 3 * products + 10 * 30 +
                                     (2 + 1) * 10 * 16 + 5 * 10 * 30);
  EXPECT_DOUBLE_EQ(g.bytes, (8 * 50 + 4 * 50 * 16 + 4 * 10 * 16) +
                                (8 * 50 + 8 * 50 * 16 + 8 * 10 * 16) +
                                4 * (16 * 30 + 10 * 16 + 10 * 30) +
                                4 * (3 * 16 * 30 + 2 * 10 * 16 + 3 * 10 * 30) + 12 * 10 * 16 +
                                (8 * 10 * 30 + 4 * 20));
  EXPECT_DOUBLE_EQ(g.launches, 1 + 2 + 1 + 3 + 0 + 1 + 1);
}

// A second hidden layer's ReLU is a launch of its own, with bytes of its own.
TEST(Work, HiddenLayersAboveTheFirstPayForTheirRelu) {
  const BatchShape batch{10, 50, 20};
  const Work one = mlp({100, 30}, {16})->gradient_work(batch);
  const Work two = mlp({100, 30}, {16, 16})->gradient_work(batch);
  const double square = 16 * 16, activations = 10 * 16;
  EXPECT_DOUBLE_EQ(two.operations - one.operations,
                   6 * 10 * square + activations + 3 * activations);
  EXPECT_DOUBLE_EQ(two.bytes - one.bytes,
                   4 * (4 * square + 7 * activations) + (8 + 12) * activations);
  EXPECT_DOUBLE_EQ(two.launches - one.launches, 4 + 2);
}

}  // namespace
}  // namespace hetsgd
