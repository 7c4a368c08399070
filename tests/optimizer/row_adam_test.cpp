// Adam on rows of which the untouched ones catch up later (slide).

#include "optimizer/row_adam.hpp"

#include "core/random.hpp"

namespace hetsgd::test {
namespace {

// Gradients at some batches only, as large as they are wherever epsilon does not matter.
class LazyRows : public testing::Test {
 protected:
  static constexpr std::size_t kCols = 20;  // the last one is a bias
  static constexpr RowBlock kRow{.rows = 1, .cols = kCols - 1, .bias = kCols - 1};
  static constexpr std::uint32_t kBatches = 700;
  static float gradient(std::uint32_t t, std::size_t i) {
    RandomStream random(t, Purpose::test, i);
    return static_cast<float>(random.uniform(0.2, 1));
  }
  // Touched at t = 3, then at growing distances: up to 200 batches, more than the horizon.
  static bool touched(std::uint32_t t) {
    return t == 3 || t == 4 || t == 10 || t == 50 || t == 60 || t == 260 || t == 420 || t == 421;
  }
  static double rate(std::uint32_t t) { return 0.01 / (1 + 0.001 * t); }

  std::vector<float> run(Lazy lazy) const {
    AdamClock clock({.kind = OptimizerKind::adam}, lazy);
    RowAdam rows(clock, kRow);
    std::vector<float> w(kCols, 1), g(kCols);
    for (std::uint32_t t = 1; t <= kBatches; ++t) {
      if (touched(t)) rows.catch_up(clock.debts(), 0, w.data());
      const AdamBatch batch = clock.begin(rate(t));
      for (std::size_t i = 0; i < kCols; ++i) g[i] = gradient(t, i);
      if (touched(t)) {
        rows.step(batch, 0, g.data(), g.back(), w.data());
      } else if (lazy == Lazy::dense) {
        rows.step_without_gradient(batch, 0, w.data());
      }
      clock.end(batch);
    }
    rows.catch_up(clock.debts(), 0, w.data());
    return w;
  }

  // lib/optimizer's Adam, with a gradient of zero where the row has none.
  std::vector<float> adam() const {
    const auto device = make_cpu_device<float>(1);
    const auto optimizer =
        make_optimizer({.kind = OptimizerKind::adam}, *device, kCols, {{0, kCols}});
    std::vector<float> w(kCols, 1), g(kCols);
    for (std::uint32_t t = 1; t <= kBatches; ++t) {
      for (std::size_t i = 0; i < kCols; ++i) g[i] = touched(t) ? gradient(t, i) : 0;
      optimizer->update(*device, rate(t), g, w);
    }
    return w;
  }
};

TEST_F(LazyRows, DenseIsTheOptimizersAdam) {
  const std::vector<float> dense = run(Lazy::dense), expected = adam();
  for (std::size_t i = 0; i < kCols; ++i) EXPECT_NEAR(dense[i], expected[i], 1e-6) << i;
}

// The same moves, summed up later; past the horizon of 160 batches next to nothing is left.
TEST_F(LazyRows, CatchUpIsDense) {
  const std::vector<float> late = run(Lazy::catch_up), dense = run(Lazy::dense);
  for (std::size_t i = 0; i < kCols; ++i) EXPECT_NEAR(late[i], dense[i], 2e-5) << i;
}

// Two workers: batch 2 steps the row and ends before batch 1 does. The row is then the result of
// batch 2 and has nothing to catch up on for it; for batch 3 it has as much as after two batches in
// order.
TEST_F(LazyRows, BatchesMayEndInAnotherOrder) {
  const auto after = [](bool swapped) {
    AdamClock clock({.kind = OptimizerKind::adam}, Lazy::catch_up);
    RowAdam rows(clock, {.rows = 1, .cols = 1});
    float w = 1;
    const float g = 0.5F;
    const AdamBatch first = clock.begin(0.01), second = clock.begin(0.01);
    rows.step(swapped ? second : first, 0, &g, 0, &w);
    clock.end(swapped ? second : first);
    EXPECT_FALSE(rows.owes(clock.debts(), 0));
    rows.step(swapped ? first : second, 0, &g, 0, &w);
    clock.end(swapped ? first : second);
    EXPECT_FALSE(rows.owes(clock.debts(), 0));
    clock.end(clock.begin(0.01));
    EXPECT_TRUE(rows.owes(clock.debts(), 0));
    rows.catch_up(clock.debts(), 0, &w);
    EXPECT_FALSE(rows.owes(clock.debts(), 0));
    return w;
  };
  EXPECT_NEAR(after(false), after(true), 2e-3);  // of some 0.03; corrections for bias differ
}

// Settled and recent batches are one list. The test runs enough batches to settle several times,
// with rows touched at all distances.
TEST_F(LazyRows, DebtsOfLongAgoAreKept) {
  AdamClock clock({.kind = OptimizerKind::adam}, Lazy::catch_up);
  RowAdam rows(clock, {.rows = 8, .cols = 1});
  std::vector<float> w(8, 0);
  const float g = 1;
  for (std::uint32_t t = 1; t <= 4000; ++t) {
    const AdamBatch batch = clock.begin(0.001);
    if (t % 500 == 1) rows.step(batch, t / 500, &g, 0, w.data());
    clock.end(batch);
  }
  // A step of g = 1 from zero moments at t, alone: m = .1, v = .001, corrected m' / sqrt(v'); what
  // follows is sum over k of that with m .9^k, v .999^k, corrections of t + k.
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint32_t s = 500 * i + 1;
    double move = 0;
    for (std::uint32_t t = s; t <= 4000; ++t) {
      const double m = 0.1 * std::pow(0.9, t - s) / (1 - std::pow(0.9, t));
      const double v = 0.001 * std::pow(0.999, t - s) / (1 - std::pow(0.999, t));
      move += 0.001 * m / (std::sqrt(v) + 1e-8);
    }
    rows.catch_up(clock.debts(), i, w.data());
    EXPECT_NEAR(-w[i], move, 1e-4 * move) << "touched at " << s;
  }
}

// A row is read as it would be after catching up, and is not moved.
TEST_F(LazyRows, CaughtUpIsWhatCatchUpMakesOfTheRow) {
  for (const Lazy lazy : {Lazy::catch_up, Lazy::touched}) {
    AdamClock clock({.kind = OptimizerKind::adam}, lazy);
    RowAdam rows(clock, kRow);
    std::vector<float> w(kCols, 1), g(kCols, 0.5F), own(kCols, -1);
    const AdamBatch first = clock.begin(0.01);
    rows.step(first, 0, g.data(), g.back(), w.data());
    clock.end(first);
    EXPECT_FALSE(rows.caught_up(clock.debts(), 0, w.data(), own.data()));  // owes nothing
    for (int i = 0; i < 20; ++i) clock.end(clock.begin(0.01));
    const std::vector<float> before = w;
    const bool owes = rows.caught_up(clock.debts(), 0, w.data(), own.data());
    EXPECT_EQ(owes, lazy == Lazy::catch_up);
    const std::vector<float> found = owes ? own : w;
    EXPECT_EQ(w, before);
    rows.catch_up(clock.debts(), 0, w.data());
    EXPECT_EQ(found, w);
  }
}

TEST_F(LazyRows, TouchedRowsAloneMoveLess) {
  const std::vector<float> touched_alone = run(Lazy::touched), dense = run(Lazy::dense);
  for (std::size_t i = 0; i < kCols; ++i) EXPECT_GT(touched_alone[i], dense[i] + 0.01F) << i;
}

}  // namespace
}  // namespace hetsgd::test
