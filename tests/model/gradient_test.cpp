#include <tuple>

#include "model/problems.hpp"

namespace hetsgd::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Model, EveryKind, ::testing::ValuesIn(all_kinds()), kind_name);

TEST_P(EveryKind, GradientAgreesWithCentralDifferences) {
  Problem<double> p(GetParam());
  for (const std::size_t size : {1UL, 20UL}) {
    const Batch batch = batch_of(*p.data, 4, size);
    auto g = make_gradient(*p.model, *p.device);
    const double loss = p.model->gradient(*p.context, batch, p.w.data(), g);
    EXPECT_NEAR(loss, p.loss(batch, p.w), 1e-12);
    double largest = 0;
    for (const double x : g.flat.span()) largest = std::max(largest, std::abs(x));
    ASSERT_GT(largest, 0);
    for (std::size_t i = 0; i < p.w.size(); ++i) {
      constexpr double kStep = 1e-5;
      auto up = p.w, down = p.w;
      up[i] += kStep;
      down[i] -= kStep;
      const double numeric = (p.loss(batch, up) - p.loss(batch, down)) / (2 * kStep);
      const double analytic = g.flat.data()[i];
      // The tolerance is relative to the entry. For entries far below the largest it is a
      // thousandth of that, and never below the rounding of two losses.
      const double rounding = 2 * std::numeric_limits<double>::epsilon() * loss / kStep;
      ASSERT_NEAR(analytic, numeric,
                  std::max(rounding, 1e-6 * std::max(std::abs(numeric), 1e-3 * largest)))
          << "parameter " << i;
    }
  }
}

TEST_P(EveryKind, RowsAreThoseOfTheBatchAndTheRestOfTheirBlocksIsZero) {
  Problem<double> p(GetParam(), 200);
  auto g = make_gradient(*p.model, *p.device);
  for (const std::size_t begin : {0UL, 30UL, 3UL, 17UL}) {  // row 3 has no features
    const Batch batch = batch_of(*p.data, begin, begin == 3 ? 1 : 12);
    p.model->gradient(*p.context, batch, p.w.data(), g);
    std::vector<Index> expected;
    for (const Index r : batch.rows()) {
      for (const Index f : touched_by(*p.data, r)) expected.push_back(f);
    }
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    std::size_t sparse = 0;
    for (const ParameterBlock& block : p.model->layout().blocks) {
      if (!block.row_sparse()) continue;
      ASSERT_EQ(g.rows.at(sparse++), expected);
      for (Index f = 0; f < block.rows; ++f) {
        if (std::binary_search(expected.begin(), expected.end(), f)) continue;
        for (std::size_t j = 0; j < block.cols; ++j) {
          ASSERT_EQ(g.flat.data()[block.offset + f * block.cols + j], 0.0)
              << "left over from another batch";
        }
      }
    }
    ASSERT_EQ(sparse, g.rows.size());
  }
}

// Parts cover the layout, each element once. Computed in any ranges they give the bits of the whole
// gradient, with the loss in the first; their work adds up.
TEST_P(EveryKind, PartsMakeTheWholeGradient) {
  Problem<double> p(GetParam());
  const auto& model = *p.model;
  const std::size_t parts = model.gradient_parts();
  std::vector<int> covered(model.parameters());
  for (std::size_t part = 0; part < parts; ++part) {
    const Extent e = model.gradient_part(part);
    for (std::size_t i = e.begin; i < e.end; ++i) ++covered[i];
  }
  EXPECT_EQ(covered, std::vector<int>(model.parameters(), 1));

  const Batch batch = batch_of(*p.data, 0, 8);
  auto whole = make_gradient(model, *p.device), pieces = make_gradient(model, *p.device);
  const double loss = model.gradient(*p.context, batch, p.w.data(), whole);
  for (std::size_t cut = 0; cut < parts; ++cut) {
    model.gradient(*p.context, batch_of(*p.data, 20, 30), p.w.data(), pieces);
    double sum = 0;
    const std::vector<Extent> ranges =
        cut == 0 ? std::vector<Extent>{{0, parts}} : std::vector<Extent>{{0, cut}, {cut, parts}};
    for (const Extent& range : ranges) {
      sum += model.partial_gradient(*p.context, batch, p.w.data(), pieces, range);
      for (std::size_t part = range.begin; part < range.end; ++part) {
        const Extent e = model.gradient_part(part);
        EXPECT_TRUE(std::equal(whole.flat.data() + e.begin, whole.flat.data() + e.end,
                               pieces.flat.data() + e.begin));
      }
    }
    EXPECT_EQ(sum, loss);
    EXPECT_EQ(pieces.rows, whole.rows);
  }
}

// work(a) + work(b) = work(a + b) + work(nothing).
TEST_P(EveryKind, WorkIsAffineInTheBatch) {
  const Problem<float> p(GetParam());
  const auto work = [&](const BatchShape& batch) { return p.model->gradient_work(batch); };
  const BatchShape a{.samples = 64, .nonzeros = 900, .labels = 300, .lookups = 192},
      b{.samples = 13, .nonzeros = 77, .labels = 20, .lookups = 39},
      both{.samples = 77, .nonzeros = 977, .labels = 320, .lookups = 231};
  EXPECT_EQ(work({}).operations, 0);
  EXPECT_GT(work({}).launches, 0);
  const Work parts = work(a) + work(b), joint = work(both) + work({});
  EXPECT_DOUBLE_EQ(parts.operations, joint.operations);
  EXPECT_DOUBLE_EQ(parts.bytes, joint.bytes);
  EXPECT_DOUBLE_EQ(parts.launches, joint.launches);
}

TEST_P(EveryKind, WorkOfPartsGrowsToThatOfTheGradient) {
  Problem<double> p(GetParam());
  const BatchShape batch{.samples = 8, .nonzeros = 21, .labels = 11, .lookups = 24};
  Work before;
  for (std::size_t parts = 1; parts <= p.model->gradient_parts(); ++parts) {
    const Work work = p.model->partial_gradient_work(batch, parts);
    EXPECT_LT(before.operations, work.operations);
    EXPECT_LT(before.bytes, work.bytes);
    EXPECT_LT(before.launches, work.launches);
    before = work;
  }
  const Work all = p.model->gradient_work(batch);
  EXPECT_EQ(std::tie(before.operations, before.bytes, before.launches),
            std::tie(all.operations, all.bytes, all.launches));
}

TEST_P(EveryKind, FloatFollowsDouble) {
  Problem<double> exact(GetParam());
  Problem<float> p(GetParam());
  const Batch batch = batch_of(*p.data, 5, 40);
  auto g = make_gradient(*p.model, *p.device);
  auto h = make_gradient(*exact.model, *exact.device);
  EXPECT_NEAR(p.model->gradient(*p.context, batch, p.w.data(), g),
              exact.model->gradient(*exact.context, batch, exact.w.data(), h), 1e-5);
  for (std::size_t i = 0; i < g.flat.size(); ++i) {
    ASSERT_NEAR(double(g.flat.data()[i]), h.flat.data()[i], 1e-5);
  }
}

TEST_P(EveryKind, SeveralCoresAgreeWithOne) {
  Problem<double> one(GetParam(), 13, 900), three(GetParam(), 13, 900, 3);
  const Batch batch = batch_of(*one.data, 0, 50);
  auto g = make_gradient(*one.model, *one.device), h = make_gradient(*three.model, *three.device);
  EXPECT_NEAR(one.model->gradient(*one.context, batch, one.w.data(), g),
              three.model->gradient(*three.context, batch, three.w.data(), h), 1e-12);
  for (std::size_t i = 0; i < g.flat.size(); ++i) {
    ASSERT_NEAR(g.flat.data()[i], h.flat.data()[i], 1e-13);
  }
}

// A row without labels adds nothing but counts in the mean (softmax tasks; in a binary one it is
// negative).
TEST(Gradient, RowsWithoutLabelsCountInTheDivisorAlone) {
  for (const std::vector<std::uint64_t>& hidden : {std::vector<std::uint64_t>{}, {9}, {18, 7}}) {
    Problem<double> p({"", Task::multilabel, hidden});
    const Index unlabelled = 2, labelled = 0;
    ASSERT_TRUE(p.data->labels(unlabelled).empty());
    auto alone = make_gradient(*p.model, *p.device), with = make_gradient(*p.model, *p.device);
    const double a = p.model->gradient(*p.context, Batch(*p.data, {labelled}), p.w.data(), alone);
    const double b =
        p.model->gradient(*p.context, Batch(*p.data, {labelled, unlabelled}), p.w.data(), with);
    EXPECT_NEAR(b, a / 2, 1e-14);
    for (std::size_t i = 0; i < p.w.size(); ++i) {
      ASSERT_NEAR(with.flat.data()[i], alone.flat.data()[i] / 2, 1e-15);
    }
    const double none =
        p.model->gradient(*p.context, Batch(*p.data, {unlabelled}), p.w.data(), with);
    EXPECT_EQ(none, 0);
    for (const double x : with.flat.span()) ASSERT_EQ(x, 0);
  }
}

TEST_P(EveryKind, ABrokenParameterBreaksTheLoss) {
  Problem<double> p(GetParam());
  const Batch batch = batch_of(*p.data, 0, 40);
  auto g = make_gradient(*p.model, *p.device);
  for (const ParameterBlock& view : p.model->layout().blocks) {
    auto w = p.w;
    std::fill_n(w.begin() + static_cast<std::ptrdiff_t>(view.offset), view.size(),
                std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(std::isnan(p.model->gradient(*p.context, batch, w.data(), g))) << view.name;
    EXPECT_TRUE(std::isnan(p.loss(batch, w))) << view.name;
  }
}

TEST_P(EveryKind, BrokenPromisesAreCaught) {
  Problem<double> p(GetParam());
  auto g = make_gradient(*p.model, *p.device);
  EXPECT_THROW(p.model->gradient(*p.context, Batch(*p.data, {}), p.w.data(), g), CheckFailure);
  const DatasetPtr wider = data_of(GetParam(), 14, 37, 5, 1);
  EXPECT_THROW(p.model->step(*p.context, Batch(*wider, {0}), 0.1, p.w.data()), CheckFailure);
  BasicGradient<double> empty;
  EXPECT_THROW(p.model->gradient(*p.context, Batch(*p.data, {0}), p.w.data(), empty), CheckFailure);
}

}  // namespace
}  // namespace hetsgd::test
