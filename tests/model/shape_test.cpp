#include <gtest/gtest.h>

#include "model/model.hpp"

namespace hetsgd {
namespace {

TEST(Layout, LayersFollowEachOtherWithoutGaps) {
  for (const ModelShape& shape :
       {ModelShape{100, 30, {}, Task::multilabel}, ModelShape{100, 30, {16}, Task::multiclass},
        ModelShape{100, 1, {16, 8, 4}, Task::binary}}) {
    const Layout layout = shape.layout();
    ASSERT_EQ(layout.layers.size(), 2 * (shape.hidden.size() + 1));
    std::size_t next = 0;
    for (const LayerView& view : layout.layers) {
      EXPECT_EQ(view.offset, next);
      next += view.size();
    }
    EXPECT_EQ(layout.size, next);
    EXPECT_EQ(shape.parameters(), next);
  }
}

TEST(Layout, NamesShapesAndFans) {
  const Layout layout = ModelShape{100, 30, {16, 8}, Task::multilabel}.layout();
  const auto expect = [&](std::size_t i, const char* name, std::size_t rows, std::size_t cols,
                          bool sparse, std::size_t fan_in, std::size_t fan_out) {
    const LayerView& view = layout.layers[i];
    EXPECT_EQ(view.name, name);
    EXPECT_EQ(view.rows, rows);
    EXPECT_EQ(view.cols, cols);
    EXPECT_EQ(view.row_sparse, sparse);
    EXPECT_EQ(view.fan_in, fan_in);
    EXPECT_EQ(view.fan_out, fan_out);
  };
  expect(0, "layer0.weight", 100, 16, true, 100, 16);
  expect(1, "layer0.bias", 1, 16, false, 100, 16);
  expect(2, "layer1.weight", 8, 16, false, 16, 8);
  expect(3, "layer1.bias", 1, 8, false, 16, 8);
  expect(4, "layer2.weight", 30, 8, false, 8, 30);
  expect(5, "layer2.bias", 1, 30, false, 8, 30);
}

const ModelShape kShapes[] = {{100, 30, {}, Task::multilabel},
                              {100, 1, {}, Task::binary},
                              {100, 30, {16}, Task::multilabel},
                              {100, 1, {16, 8}, Task::binary}};

Work operator-(const Work& a, const Work& b) {
  return {a.operations - b.operations, a.bytes - b.bytes, a.launches - b.launches};
}

void expect_same(const Work& a, const Work& b) {
  EXPECT_DOUBLE_EQ(a.operations, b.operations);
  EXPECT_DOUBLE_EQ(a.bytes, b.bytes);
  EXPECT_DOUBLE_EQ(a.launches, b.launches);
}

// work(a) + work(b) = work(a + b) + work(nothing).
TEST(Work, IsPositiveAndAffineInTheBatch) {
  const BatchShape a{64, 900, 300}, b{13, 77, 20}, both{77, 977, 320};
  for (const ModelShape& shape : kShapes) {
    for (const auto work : {&ModelShape::gradient_work, &ModelShape::scoring_work}) {
      const Work nothing = (shape.*work)({});
      EXPECT_EQ(nothing.operations, 0);
      EXPECT_GT(nothing.launches, 0);
      const Work one = (shape.*work)(a);
      EXPECT_GT(one.operations, 0);
      EXPECT_GT(one.bytes, 0);
      expect_same(one + (shape.*work)(b)-nothing, (shape.*work)(both));
    }
    EXPECT_GT(shape.gradient_work(a).operations, shape.scoring_work(a).operations);
  }
}

// By hand, for 10 samples with 50 nonzeros and 20 labels, 16 hidden units, 30 labels.
TEST(Work, MatchesTheTableByHand) {
  const ModelShape shape{100, 30, {16}, Task::multilabel};
  const Work g = shape.gradient_work({10, 50, 20});
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
  const Work s = shape.scoring_work({10, 50, 20});
  EXPECT_DOUBLE_EQ(s.operations, 2 * 50 * 16 + products + 2 * 10 * 16 + 4 * 10 * 30);
  EXPECT_DOUBLE_EQ(s.bytes, (8 * 50 + 4 * 50 * 16 + 4 * 10 * 16) +
                                4 * (16 * 30 + 10 * 16 + 10 * 30) + (12 * 10 * 30 + 4 * 20));
  EXPECT_DOUBLE_EQ(s.launches, 1 + 1 + 0 + 2);
}

// A second hidden layer's ReLU is a launch of its own, with bytes of its own.
TEST(Work, HiddenLayersAboveTheFirstPayForTheirRelu) {
  const BatchShape batch{10, 50, 20};
  const Work one = ModelShape{100, 30, {16}, Task::multilabel}.gradient_work(batch);
  const Work two = ModelShape{100, 30, {16, 16}, Task::multilabel}.gradient_work(batch);
  const double square = 16 * 16, activations = 10 * 16;
  EXPECT_DOUBLE_EQ(two.operations - one.operations,
                   6 * 10 * square + activations + 3 * activations);
  EXPECT_DOUBLE_EQ(two.bytes - one.bytes,
                   4 * (4 * square + 7 * activations) + (8 + 12) * activations);
  EXPECT_DOUBLE_EQ(two.launches - one.launches, 4 + 2);
}

}  // namespace
}  // namespace hetsgd
