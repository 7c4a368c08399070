#include <gtest/gtest.h>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

struct SparseShape {
  std::size_t rows, columns, per_row, n;
};

const SparseShape kSparseShapes[] = {{0, 5, 2, 8},     {1, 1, 1, 1},       {5, 9, 3, 1},
                                     {7, 40, 12, 17},  {33, 100, 20, 128}, {64, 300, 7, 100},
                                     {19, 50, 9, 983}, {2, 30, 4, 15}};

template <class Real>
class Sparse : public ::testing::Test {};
TYPED_TEST_SUITE(Sparse, RealTypes);

TYPED_TEST(Sparse, ForwardMatchesTheDenseProduct) {
  using Real = TypeParam;
  for (const SparseShape& s : kSparseShapes) {
    const RandomSparse X(s.rows, s.columns, s.per_row, 1);
    const auto W = random_vector<Real>(s.columns * s.n, 2), bias = random_vector<Real>(s.n, 3);
    for (const bool values : {true, false}) {
      const auto dense = X.dense(values);
      for (const bool with_bias : {true, false}) {
        for (const bool relu : {true, false}) {
          std::vector<double> expected(s.rows * s.n);
          for (std::size_t r = 0; r < s.rows; ++r) {
            for (std::size_t j = 0; j < s.n; ++j) {
              double sum = with_bias ? double(bias[j]) : 0;
              for (std::size_t c = 0; c < s.columns; ++c) {
                sum += dense[r * s.columns + c] * double(W[c * s.n + j]);
              }
              expected[r * s.n + j] = relu ? std::max(sum, 0.0) : sum;
            }
          }
          for (const int cores : kCoreCounts) {
            std::vector<Real> Y(s.rows * s.n, Real(7));
            sparse_kernels(*make_cpu_device<Real>(cores))
                .forward(X.view<Real>(values), s.n, W.data(), with_bias ? bias.data() : nullptr,
                         relu, Y.data());
            expect_close(Y, expected, kTolerance<Real>, "Y");
          }
        }
      }
    }
  }
}

TYPED_TEST(Sparse, UpdateMatchesTheDenseProductAndLeavesOtherRowsAlone) {
  using Real = TypeParam;
  for (const SparseShape& s : kSparseShapes) {
    const RandomSparse X(s.rows, s.columns, s.per_row, 4);
    const auto W0 = random_vector<Real>(s.columns * s.n, 5),
               D = random_vector<Real>(s.rows * s.n, 6);
    const auto dense = X.dense(true);
    auto expected = widen(W0);
    std::vector<bool> touched(s.columns);
    for (std::size_t r = 0; r < s.rows; ++r) {
      for (std::size_t c = 0; c < s.columns; ++c) {
        if (dense[r * s.columns + c] == 0) continue;
        touched[c] = true;
        for (std::size_t j = 0; j < s.n; ++j) {
          expected[c * s.n + j] += -0.3 * dense[r * s.columns + c] * double(D[r * s.n + j]);
        }
      }
    }
    std::vector<Real> first;
    for (const int cores : kCoreCounts) {
      auto W = W0;
      sparse_kernels(*make_cpu_device<Real>(cores))
          .update(X.view<Real>(true), s.n, Real(-0.3), D.data(), W.data());
      expect_close(W, expected, kTolerance<Real>, "W");
      for (std::size_t c = 0; c < s.columns; ++c) {
        if (touched[c]) continue;
        for (std::size_t j = 0; j < s.n; ++j) ASSERT_EQ(W[c * s.n + j], W0[c * s.n + j]);
      }
      if (first.empty()) first = W;
      EXPECT_EQ(W, first) << "bits depend on the cores";
    }
  }
}

TYPED_TEST(Sparse, NaNPassesThroughRelu) {
  using Real = TypeParam;
  const RandomSparse X(6, 20, 20, 7);  // every non-empty row holds every column
  for (const std::size_t n : {1UL, 16UL, 128UL, 131UL}) {
    auto W = random_vector<Real>(20 * n, 8);
    W[3 * n + n - 1] = std::numeric_limits<Real>::quiet_NaN();
    std::vector<Real> Y(6 * n);
    sparse_kernels(*make_cpu_device<Real>(1))
        .forward(X.view<Real>(true), n, W.data(), nullptr, true, Y.data());
    for (std::size_t r = 0; r < 6; ++r) {
      const bool empty = X.begin[X.row[r]] == X.begin[X.row[r] + 1];
      EXPECT_EQ(std::isnan(Y[r * n + n - 1]), !empty);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
