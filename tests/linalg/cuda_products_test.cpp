// Dense and sparse products on a GPU.
#include "linalg/cuda_compare.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaProducts : public ::testing::Test {};
TYPED_TEST_SUITE(CudaProducts, RealTypes);

TYPED_TEST(CudaProducts, Gemm) {
  struct Sizes {
    std::size_t m, n, k;
  };
  for (const Sizes& s : {Sizes{1, 1, 1},
                         {5, 7, 3},
                         {64, 983, 128},
                         {33, 1, 17},
                         {1, 40, 300},
                         {128, 9, 0},
                         {0, 5, 5},
                         {5, 0, 5},
                         {70, 50, 1000}}) {
    for (const int transposes : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " " << transposes);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        const Transpose a = transposes & 1 ? Transpose::yes : Transpose::no;
        const Transpose b = transposes & 2 ? Transpose::yes : Transpose::no;
        const std::size_t lda = (a == Transpose::yes ? s.m : s.k) + 3;
        const std::size_t ldb = (b == Transpose::yes ? s.k : s.n) + 2, ldc = s.n + 1;
        auto A = side.put(random_vector<float>((s.m + s.k) * lda, 1));
        auto B = side.put(random_vector<float>((s.k + s.n) * ldb, 2));
        auto C = side.put(random_vector<float>(s.m * ldc, 3));
        // What lies between the rows stays.
        side.device.gemm(a, b, s.m, s.n, s.k, Real(0.5), A.data(), lda, B.data(), ldb, Real(0.25),
                         C.data(), ldc);
        side.take(C);
        auto fresh = side.put(std::vector<float>(s.m * s.n, kNan));
        side.device.gemm(a, b, s.m, s.n, s.k, Real(2), A.data(), lda, B.data(), ldb, Real(0),
                         fresh.data(), s.n);
        side.take(fresh);
      });
    }
  }
}

struct GpuSparseShape {
  std::size_t rows, columns, per_row, n;
};

// One column for all: a run of nonzeros longer than a warp. One row alone. Odd widths.
const GpuSparseShape kGpuSparseShapes[] = {
    {0, 10, 3, 8},      {1, 1, 1, 1},        {100, 1, 1, 130},  {5, 1000, 40, 9},
    {64, 300, 76, 128}, {33, 5000, 70, 983}, {257, 40, 20, 33}, {200, 3, 2, 64}};

TYPED_TEST(CudaProducts, SparseProducts) {
  for (const GpuSparseShape& s : kGpuSparseShapes) {
    for (const bool values : {true, false}) {
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns << "x" << s.n);
      const RandomSparse sparse(s.rows, s.columns, s.per_row, 5);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        const auto X = side.stage(sparse, values);
        auto W = side.put(random_vector<float>(s.columns * s.n, 1));
        auto bias = side.put(random_vector<float>(s.n, 2));
        auto Y = side.put(std::vector<float>(s.rows * s.n, kNan));
        sparse_kernels(side.device).forward(X, s.n, W.data(), bias.data(), true, Y.data());
        side.take(Y);
        sparse_kernels(side.device).forward(X, s.n, W.data(), nullptr, false, Y.data());
        side.take(Y);
        sparse_kernels(side.device).update(X, s.n, Real(-0.3), Y.data(), W.data());
        side.take(W);
      });
    }
  }
}

// --precision: every product of a layer, with the factors rounded to the format's mantissa and no
// further. The bound takes a unit in the last place for each factor: tensor cores may cut off.
TEST(CudaPrecision, ErrorsAreThoseOfTheMantissa) {
  struct Format {
    Precision precision;
    double unit;
  };
  const std::size_t m = 64, n = 256, k = 128;
  for (const Format& format :
       {Format{Precision::tf32, std::ldexp(1, -10)}, {Precision::bf16, std::ldexp(1, -7)}}) {
    const auto device = make_cuda_device<float>(0, {.precision = format.precision});
    for (const int transposes : {0, 1, 2, 3}) {
      const Transpose a = transposes & 1 ? Transpose::yes : Transpose::no;
      const Transpose b = transposes & 2 ? Transpose::yes : Transpose::no;
      const auto A = random_vector<float>(m * k, 1), B = random_vector<float>(k * n, 2);
      Side<float> low{*device}, full{gpu<float>()};
      for (Side<float>* const side : {&low, &full}) {
        auto C = side->put(std::vector<float>(m * n, kNan));
        side->device.gemm(a, b, m, n, k, 1.0F, side->put(A).data(), a == Transpose::yes ? m : k,
                          side->put(B).data(), b == Transpose::yes ? k : n, 0.0F, C.data(), n);
        side->take(C);
      }
      double worst = 0;
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          double exact = 0, size = 0;
          for (std::size_t p = 0; p < k; ++p) {
            const double product = static_cast<double>(A[transposes & 1 ? p * m + i : i * k + p]) *
                                   static_cast<double>(B[transposes & 2 ? j * k + p : p * n + j]);
            exact += product;
            size += std::abs(product);
          }
          const double bound = size * (2.1 * format.unit + static_cast<double>(k) * 1.2e-7);
          const double error = std::abs(low.results[0][i * n + j] - exact);
          ASSERT_LE(error, bound) << i << "," << j;
          ASSERT_LE(std::abs(full.results[0][i * n + j] - exact), 7e-6 * size);
          worst = std::max(worst, error / size);
        }
      }
      // It is a reduced one, where the GPU has it; cuBLAS may take TF32 for BF16. Factors rounded
      // to the nearest are off by a quarter of TF32's unit on average, in both directions, so k
      // products together by a quarter of it over sqrt(k); the largest of m n errors is more. Full
      // precision stays below a third of that.
      if (cuda_platform().gpus[0].major >= 8) {
        EXPECT_GT(worst, std::ldexp(1, -10) / (4 * std::sqrt(static_cast<double>(k))));
      }
    }
  }
}

TEST(CudaPrecision, LeavesDoubleAlone) {
  const auto device = make_cuda_device<double>(0, {.precision = Precision::bf16});
  Side<double> low{*device}, full{gpu<double>()};
  for (Side<double>* const side : {&low, &full}) {
    auto A = side->put(random_vector<float>(400, 1)), C = side->put(std::vector<float>(400));
    side->device.gemm(Transpose::no, Transpose::no, 20, 20, 20, 1.0, A.data(), 20, A.data(), 20,
                      0.0, C.data(), 20);
    side->take(C);
  }
  EXPECT_EQ(low.results, full.results);
}

}  // namespace
}  // namespace hetsgd::test
