#include "model/problems.hpp"

namespace hetsgd::test {
namespace {

class StepOfEveryKind : public EveryKind {};

INSTANTIATE_TEST_SUITE_P(Model, StepOfEveryKind, ::testing::ValuesIn(all_kinds()), kind_name);

TEST_P(StepOfEveryKind, StepIsAGradientApplied) {
  for (const int cores : {1, 3}) {
    Problem<double> p(GetParam(), 50, 700, cores);
    for (const std::size_t size : {1UL, 6UL, 35UL}) {
      const Batch batch = batch_of(*p.data, 2, size);
      auto g = make_gradient(*p.model, *p.device);
      auto stepped = p.w, applied = p.w;
      const double loss = p.model->gradient(*p.context, batch, p.w.data(), g);
      EXPECT_NEAR(p.model->step(*p.context, batch, 0.3, stepped.data()), loss, 1e-13);
      apply_gradient(*p.model, *p.device, g, 0.3, applied.data());
      for (std::size_t i = 0; i < p.w.size(); ++i) {
        ASSERT_NEAR(stepped[i], p.w[i] - 0.3 * g.flat.data()[i], 1e-13) << i;
        ASSERT_NEAR(applied[i], p.w[i] - 0.3 * g.flat.data()[i], 1e-13) << i;
      }
    }
  }
}

TEST_P(StepOfEveryKind, RowsOfFeaturesThatDoNotOccurKeepTheirBits) {
  Problem<float> p(GetParam(), 300);
  const Batch batch = batch_of(*p.data, 0, 9);
  std::vector<bool> occurs(300);
  for (const Index r : batch.rows()) {
    for (const Index f : touched_by(*p.data, r)) occurs[f] = true;
  }
  auto stepped = p.w, applied = p.w;
  auto g = make_gradient(*p.model, *p.device);
  p.model->gradient(*p.context, batch, p.w.data(), g);
  p.model->step(*p.context, batch, 0.5F, stepped.data());
  apply_gradient(*p.model, *p.device, g, 0.5F, applied.data());
  for (const ParameterBlock& block : p.model->layout().blocks) {
    if (!block.row_sparse()) continue;
    bool moved = false;
    for (std::size_t at = 0; at < block.size(); ++at) {
      const std::size_t i = block.offset + at;
      moved |= stepped[i] != p.w[i];
      if (occurs[at / block.cols]) continue;
      ASSERT_EQ(stepped[i], p.w[i]);
      ASSERT_EQ(applied[i], p.w[i]);
    }
    EXPECT_TRUE(moved) << block.name;
  }
}

// One model, several contexts, as the workers of a cluster share it; batches of changing size.
TEST_P(StepOfEveryKind, ContextsAreIndependentAndReusable) {
  Problem<float> p(GetParam());
  const auto other_device = make_cpu_device<float>(1);
  const auto other = p.model->make_context(*other_device);
  auto a = p.w, b = p.w;
  for (const std::size_t size : {40UL, 3UL, 60UL, 1UL}) {
    const Batch batch = batch_of(*p.data, 0, size);
    const double first = p.model->step(*p.context, batch, 0.1F, a.data());
    EXPECT_EQ(p.model->step(*other, batch, 0.1F, b.data()), first);
    auto fresh = p.w;
    p.model->step(*p.model->make_context(*other_device), batch_of(*p.data, 0, 5), 0.1F,
                  fresh.data());
  }
  EXPECT_EQ(a, b);
}

// By the definition, a double loop over the pairs.
TEST(FactorisationMachine, ScoresAreSumsOverPairs) {
  Problem<double> p({"", Task::multilabel, {}, "fm"});
  const Batch batch = batch_of(*p.data, 0, 10);
  const std::size_t outputs = p.model->outputs();
  std::vector<double> logits(batch.size() * outputs);
  p.model->scores(*p.context, batch, p.w.data(), logits.data());
  const auto& blocks = p.model->layout().blocks;
  const double *b = p.w.data() + blocks[0].offset, *w = p.w.data() + blocks[1].offset,
               *v = p.w.data() + blocks[2].offset;
  const std::size_t width = blocks[2].cols, K = width / outputs;
  for (std::size_t r = 0; r < batch.size(); ++r) {
    const auto index = p.data->features(batch.rows()[r]);
    const auto x = p.data->values(batch.rows()[r]);
    for (std::size_t l = 0; l < outputs; ++l) {
      double z = b[l];
      for (std::size_t i = 0; i < index.size(); ++i) {
        z += static_cast<double>(x[i]) * w[index[i] * outputs + l];
        for (std::size_t j = i + 1; j < index.size(); ++j) {
          const double* const vi = v + index[i] * width + l * K;
          const double* const vj = v + index[j] * width + l * K;
          z += static_cast<double>(x[i]) * static_cast<double>(x[j]) *
               std::inner_product(vi, vi + K, vj, 0.0);
        }
      }
      ASSERT_NEAR(logits[r * outputs + l], z, 1e-12);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
