// Models whose table lies elsewhere have the same values as with a table of their own.

#include "linalg/embedding_kernels.hpp"
#include "model/problems.hpp"

namespace hetsgd::test {
namespace {

std::vector<Kind> kinds_with_a_table() {
  std::vector<Kind> kinds;
  for (const Kind& kind : all_kinds()) {
    if (kind.fields()) kinds.push_back(kind);
  }
  return kinds;
}

// A model with a table, its dense part, and the batch looked up in the model's own table.
struct DividedProblem : Problem<float> {
  explicit DividedProblem(const Kind& kind)
      : Problem<float>(kind),
        part(model->dense_part()),
        part_context(part->make_context(*device)),
        batch(batch_of(*data, 8, 21)),
        table(model->layout().blocks.front().size()),
        rest(w.begin() + static_cast<std::ptrdiff_t>(table), w.end()) {
    embedded.reset(*device, batch.size(), part->embedded_width());
    kernels<EmbeddingKernels>(*device).gather_rows(fields(), model->table_shape(), w.data(),
                                                   embedded.x.data(), embedded.u.data());
  }

  FieldRows<float> fields() const {
    return {batch.size(),
            data->dense.columns,
            3,
            data->fields.first.back(),
            batch.rows().data(),
            data->dense.value.data(),
            data->fields.category.data()};
  }

  std::unique_ptr<Model> part;
  std::unique_ptr<ModelContext> part_context;
  Batch batch;
  std::size_t table;        // numbers of it
  std::vector<float> rest;  // parameters of the dense part
  Embedded embedded, by_embedded;
};

TEST(DensePart, LacksTheTableAndBeginsAlike) {
  for (const Kind& kind : kinds_with_a_table()) {
    SCOPED_TRACE(kind.name);
    const DividedProblem p(kind);
    EXPECT_EQ(p.part->parameters() + p.table, p.model->parameters());
    EXPECT_EQ(p.part->layout().sparse, 0U);
    EXPECT_EQ(p.part->table_shape().row(), p.model->table_shape().row());
    const auto whole = initial_parameters<float>(p.model->layout(), 5);
    const auto part = initial_parameters<float>(p.part->layout(), 5);
    EXPECT_TRUE(
        std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(p.table)));
  }
}

TEST(DensePart, LossGradientAndScoresAreThoseOfTheWholeToTheBit) {
  for (const Kind& kind : kinds_with_a_table()) {
    SCOPED_TRACE(kind.name);
    DividedProblem p(kind);
    Gradient whole = make_gradient(*p.model, *p.device), part = make_gradient(*p.part, *p.device);
    const double loss = p.model->gradient(*p.context, p.batch, p.w.data(), whole);
    EXPECT_EQ(p.part->forward(*p.part_context, p.batch, p.embedded, p.rest.data()), loss);
    p.part->backward(*p.part_context, p.batch, p.embedded, p.rest.data(), part, p.by_embedded);
    EXPECT_TRUE(std::ranges::equal(part.flat.span(), whole.flat.span().subspan(p.table)));
    std::vector<float> rows(p.table);
    kernels<EmbeddingKernels>(*p.device).update_rows(p.fields(), p.part->table_shape(), 1,
                                                     p.by_embedded.x.data(), p.by_embedded.u.data(),
                                                     rows.data());
    EXPECT_TRUE(std::ranges::equal(rows, whole.flat.span().first(p.table)));
    std::vector<float> own(p.batch.size()), looked_up(p.batch.size());
    EXPECT_EQ(
        p.model->scores(*p.context, p.batch, p.w.data(), own.data()),
        p.part->scores(*p.part_context, p.batch, p.embedded, p.rest.data(), looked_up.data()));
    EXPECT_EQ(own, looked_up);
  }
}

TEST(DensePart, FusedStepsAreThoseOfTheWholeToTheBit) {
  for (const Kind& kind : kinds_with_a_table()) {
    SCOPED_TRACE(kind.name);
    DividedProblem p(kind);
    p.part->forward(*p.part_context, p.batch, p.embedded, p.rest.data());
    p.part->backward_step(*p.part_context, p.batch, p.embedded, 0.1F, p.rest.data(), p.by_embedded);
    p.model->step(*p.context, p.batch, 0.1F, p.w.data());
    EXPECT_TRUE(std::equal(p.rest.begin(), p.rest.end(),
                           p.w.begin() + static_cast<std::ptrdiff_t>(p.table)));
  }
}

// The forward pass is a part of the step, and the dense part is not charged for the table.
TEST(DensePart, WorkIsDividedWithoutARest) {
  for (const Kind& kind : kinds_with_a_table()) {
    SCOPED_TRACE(kind.name);
    const DividedProblem p(kind);
    const BatchShape batch = p.batch.shape();
    const Work whole = p.model->gradient_work(batch), part = p.part->gradient_work(batch);
    const double L = batch.lookups, C = static_cast<double>(p.model->table_shape().row());
    EXPECT_NEAR(whole.operations - part.operations, L + 3 * L * C, 1e-6);
    EXPECT_NEAR(whole.bytes - part.bytes, 8 * L + 24 * L * C, 1e-6);
    EXPECT_EQ(whole.launches - part.launches, 3);
    const Work forward = p.part->forward_work(batch);
    EXPECT_GT(forward.operations, 0);
    EXPECT_LT(forward.operations, part.operations);
    EXPECT_LT(forward.bytes, part.bytes);
    EXPECT_LT(forward.launches, part.launches);
  }
}

// A row is a function of (seed, field, value): whichever columns of it are made, and wherever its
// value stands in the vocabulary.
TEST(InitialRows, DependOnSeedFieldAndValueAlone) {
  const std::vector<std::uint32_t> values = {0, 1, 900, 7, 0, 1, 7, 33}, moved = {0, 1, 7, 0, 1, 7};
  const TableRows law{{{0, 4, 8}, {values, {}}}, 3, 0.1, 10};
  const TableRows smaller{{{0, 3, 6}, {moved, {}}}, 3, 0.1, 10};
  const auto row = [](const TableRows& rows, std::uint32_t field, std::uint32_t number) {
    std::vector<float> all(11), pieces(11);
    rows.make(field, number, 0, 11, all.data());
    for (std::size_t begin = 0; begin < 11; begin += 3) {
      rows.make(field, number, begin, std::min<std::size_t>(11, begin + 3), pieces.data() + begin);
    }
    EXPECT_EQ(all, pieces);
    EXPECT_EQ(all[10], 0);
    return all;
  };
  EXPECT_EQ(row(law, 0, 3), row(smaller, 0, 2));
  EXPECT_EQ(row(law, 1, 6), row(smaller, 1, 5));
  EXPECT_NE(row(law, 0, 3), row(law, 1, 6));
  EXPECT_NE(row(law, 0, 2), row(law, 0, 3));
  EXPECT_EQ(law.keys.field_of(3), 0U);
  EXPECT_EQ(law.keys.field_of(4), 1U);
}

}  // namespace
}  // namespace hetsgd::test
