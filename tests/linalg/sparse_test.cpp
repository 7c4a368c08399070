// Products of sparse rows.
#include "linalg/devices.hpp"

namespace hetsgd::test {
namespace {

struct SparseShape {
  std::size_t rows, columns, per_row, n;
};

// One column for all: a run of nonzeros longer than a warp, or than 64 warps. One row alone. Odd
// widths.
const SparseShape kSparseShapes[] = {
    {0, 5, 2, 8},       {1, 1, 1, 1},        {5, 9, 3, 1},    {7, 40, 12, 17},  {33, 100, 20, 128},
    {64, 300, 76, 100}, {19, 50, 9, 983},    {2, 30, 4, 15},  {100, 1, 1, 130}, {5, 1000, 40, 9},
    {257, 40, 20, 33},  {33, 5000, 70, 983}, {200, 3, 2, 64}, {2500, 2, 2, 8}};

template <class Real>
class Sparse : public ::testing::Test {};
TYPED_TEST_SUITE(Sparse, RealTypes);

TYPED_TEST(Sparse, ProductsMatchTheirDefinition) {
  using Real = TypeParam;
  for (const SparseShape& s : kSparseShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns << "x" << s.n);
    const RandomSparse X(s.rows, s.columns, s.per_row, 1);
    const auto w = random_vector<Real>(s.columns * s.n, 2), bias = random_vector<Real>(s.n, 3),
               d = random_vector<Real>(s.rows * s.n, 4);
    for (const bool values : {true, false}) {
      std::vector<double> y(s.rows * s.n), moved = widen(w);
      std::vector<bool> touched(s.columns);
      X.each(values, [&](std::size_t r, std::size_t c, double x) {
        touched[c] = true;
        for (std::size_t j = 0; j < s.n; ++j) {
          y[r * s.n + j] += x * double(w[c * s.n + j]);
          moved[c * s.n + j] -= 0.3 * x * double(d[r * s.n + j]);
        }
      });
      on_devices<Real>([&](auto& side) {
        auto& kernels = sparse_kernels(side.device);
        const auto rows = side.stage(X, values);
        auto W = side.put(w), b = side.put(bias), D = side.put(d), Y = side.room(s.rows * s.n);
        for (const bool with_bias : {true, false}) {
          for (const bool relu : {true, false}) {
            kernels.forward(rows, s.n, W.data(), with_bias ? b.data() : nullptr, relu, Y.data());
            side.expect(Y,
                        numbers(y.size(),
                                [&](auto i) {
                                  const double sum = y[i] + (with_bias ? double(bias[i % s.n]) : 0);
                                  return relu ? std::max(sum, 0.0) : sum;
                                }),
                        "Y");
          }
        }
        kernels.update(rows, s.n, Real(-0.3), D.data(), W.data());
        side.expect(W, moved, "W");
        const auto found = side.get(W);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_TRUE(touched[i / s.n] || found[i] == w[i]) << "a row that no sample has";
        }
      });
    }
  }
}

TYPED_TEST(Sparse, NaNPassesThroughRelu) {
  using Real = TypeParam;
  const RandomSparse X(6, 20, 20, 7);  // every non-empty row holds every column
  for (const std::size_t n : {1UL, 16UL, 128UL, 131UL}) {
    auto w = random_vector<Real>(20 * n, 8);
    w[3 * n + n - 1] = std::numeric_limits<Real>::quiet_NaN();
    on_devices<Real>([&](auto& side) {
      auto W = side.put(w), Y = side.room(6 * n);
      sparse_kernels(side.device)
          .forward(side.stage(X, true), n, W.data(), nullptr, true, Y.data());
      const auto y = side.get(Y);
      for (std::size_t r = 0; r < 6; ++r) {
        const bool empty = X.begin[X.row[r]] == X.begin[X.row[r] + 1];
        EXPECT_EQ(std::isnan(y[r * n + n - 1]), !empty);
      }
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
