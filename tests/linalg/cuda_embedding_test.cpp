// Embedding tables and interactions of features on a GPU.
#include "linalg/cuda_compare.hpp"
#include "linalg/embedding_kernels.hpp"
#include "linalg/field_rows.hpp"
#include "linalg/interaction_kernels.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaEmbedding : public ::testing::Test {};
TYPED_TEST_SUITE(CudaEmbedding, RealTypes);

// Among the shapes are categories with more lookups than a warp has lanes, within and across runs.
TYPED_TEST(CudaEmbedding, GathersAndUpdates) {
  for (const FieldShape& s : kFieldShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " rows of " << s.fields << " fields");
    const RandomFields fields(s, 1);
    const std::size_t width = s.columns + s.fields * s.embedding;
    compare<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& rows = kernels<BasicEmbeddingKernels<Real>>(side.device);
      const TableShape table{s.embedding, s.extra};
      const auto X = side.device.stage(fields.template view<Real>());
      auto W = side.put(random_vector<float>(fields.categories() * table.row(), 2));
      auto Y = side.put(std::vector<float>(s.rows * width));
      auto z = side.put(std::vector<float>(s.rows));
      auto D = side.put(random_vector<float>(s.rows * width, 3));
      auto d = side.put(random_vector<float>(s.rows, 4));
      rows.gather_rows(X, table, W.data(), Y.data(), z.data());
      side.take(Y);
      side.take(z);
      rows.update_rows(X, table, Real(-0.25), D.data(), d.data(), W.data());
      side.take(W);
    });
  }
}

TYPED_TEST(CudaEmbedding, StagedFieldsOutliveTheHostsArraysAndOneMoreBatch) {
  auto& device = gpu<TypeParam>();
  auto& rows = kernels<BasicEmbeddingKernels<TypeParam>>(device);
  RandomFields first({20, 3, 4, 5, 1, 9}, 1);
  const RandomFields same = first, other({30, 2, 5, 5, 1, 9}, 2);
  const TableShape table{5, 1};
  const std::size_t numbers = 20 * (3 + 4 * 5);
  Side<TypeParam> side{device};
  auto W = side.put(random_vector<float>(first.categories() * 6, 2));
  auto Y = side.put(std::vector<float>(numbers)), z = side.put(std::vector<float>(20));
  rows.gather_rows(device.stage(same.template view<TypeParam>()), table, W.data(), Y.data(),
                   z.data());
  side.take(Y);
  const auto staged = device.stage(first.template view<TypeParam>());
  std::fill(first.category.begin(), first.category.end(), 0U);
  std::fill(first.dense.begin(), first.dense.end(), kNan);
  device.stage(other.template view<TypeParam>());
  rows.gather_rows(staged, table, W.data(), Y.data(), z.data());
  side.take(Y);
  EXPECT_EQ(side.results[0], side.results[1]);
  device.stage(other.template view<TypeParam>());
  EXPECT_THROW(rows.gather_rows(staged, table, W.data(), Y.data(), z.data()), CheckFailure);
  EXPECT_THROW(
      rows.gather_rows(other.template view<TypeParam>(), table, W.data(), Y.data(), z.data()),
      CheckFailure);
}

TYPED_TEST(CudaEmbedding, Interactions) {
  struct Shape {
    std::size_t rows, columns, fields, embedding;
  };
  for (const Shape& s : {Shape{0, 2, 3, 4}, {1, 0, 1, 1}, {70, 3, 4, 5}, {40, 13, 26, 16}}) {
    SCOPED_TRACE(::testing::Message() << s.rows << " rows of " << s.fields << " fields");
    const FieldVectors shape{s.columns + s.fields * s.embedding, s.columns, s.fields, s.embedding};
    compare<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& interaction = kernels<BasicInteractionKernels<Real>>(side.device);
      const std::size_t n = s.rows * shape.width;
      auto x0 = side.put(random_vector<float>(n, 1)), x = side.put(random_vector<float>(n, 2));
      auto w = side.put(random_vector<float>(shape.width, 3)),
           b = side.put(random_vector<float>(shape.width, 4));
      auto z = side.put(random_vector<float>(s.rows, 5)),
           d = side.put(random_vector<float>(s.rows, 6));
      auto t = side.put(std::vector<float>(s.rows)), y = side.put(std::vector<float>(n));
      auto S = side.put(std::vector<float>(s.rows * s.embedding));
      auto dx = side.put(random_vector<float>(n, 7)), g = side.put(random_vector<float>(n, 8));
      interaction.fm_forward(s.rows, shape, x0.data(), S.data(), z.data());
      side.take(S);
      side.take(z);
      interaction.fm_backward(s.rows, shape, x0.data(), S.data(), d.data(), dx.data());
      side.take(dx);
      interaction.cross_forward(s.rows, shape.width, x0.data(), x.data(), w.data(), b.data(),
                                z.data(), y.data());
      side.take(z);
      side.take(y);
      interaction.cross_backward(s.rows, shape.width, x0.data(), w.data(), z.data(), t.data(),
                                 g.data(), dx.data());
      side.take(t);
      side.take(g);
      side.take(dx);
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
