// Dense products.
#include "linalg/devices.hpp"

namespace hetsgd::test {
namespace {

struct Product {
  std::size_t m, n, k;
};

const Product kProducts[] = {{1, 1, 1},     {3, 5, 7},     {8, 32, 16},    {13, 33, 300},
                             {64, 47, 128}, {128, 1, 64},  {1, 40, 300},   {1, 200, 128},
                             {70, 16, 9},   {257, 65, 31}, {5, 7, 0},      {0, 4, 4},
                             {4, 0, 4},     {90, 700, 64}, {70, 50, 1000}, {64, 983, 128}};

// op(A), op(B) and C are stored with rows longer than needed, so that a wrong leading dimension
// fails.
constexpr std::size_t kPad = 3;

// C = alpha op(A) op(B) + beta C with random operands.
template <class Real>
struct GemmCase {
  GemmCase(const Product& product, int transposes, double a_factor, double c_factor)
      : s(product),
        a((transposes & 1) != 0 ? Transpose::yes : Transpose::no),
        b((transposes & 2) != 0 ? Transpose::yes : Transpose::no),
        alpha(a_factor),
        beta(c_factor),
        lda((a == Transpose::yes ? s.m : s.k) + kPad),
        ldb((b == Transpose::yes ? s.k : s.n) + kPad),
        A(random_vector<Real>((s.m + s.k) * lda, 1)),
        B(random_vector<Real>((s.k + s.n) * ldb, 2)),
        C(random_vector<Real>((s.m + 1) * ldc(), 3)) {}
  std::size_t ldc() const { return s.n + kPad; }

  template <class S>
  BasicBuffer<Real> run(S& side) const {
    const auto left = side.put(A), right = side.put(B);
    auto result = side.put(C);
    side.device.gemm(a, b, s.m, s.n, s.k, Real(alpha), left.data(), lda, right.data(), ldb,
                     Real(beta), result.data(), ldc());
    return result;
  }
  std::vector<double> definition() const {
    std::vector<double> result = widen(C);  // what lies between the rows stays
    for (std::size_t i = 0; i < s.m; ++i) {
      for (std::size_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < s.k; ++k) {
          sum += double(a == Transpose::yes ? A[k * lda + i] : A[i * lda + k]) *
                 double(b == Transpose::yes ? B[j * ldb + k] : B[k * ldb + j]);
        }
        double& c = result[i * ldc() + j];
        c = alpha * sum + (beta == 0 ? 0 : beta * c);
      }
    }
    return result;
  }

  Product s;
  Transpose a, b;
  double alpha, beta;
  std::size_t lda, ldb;
  std::vector<Real> A, B, C;
};

template <class Real>
class Gemm : public ::testing::Test {};
TYPED_TEST_SUITE(Gemm, RealTypes);

TYPED_TEST(Gemm, MatchesTheTripleLoopForAllTransposesAndFactors) {
  for (const Product& s : kProducts) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {-0.5, 1.0}, {2.0, 0.25}}) {
        SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " " << transposes);
        const GemmCase<TypeParam> product(s, transposes, alpha, beta);
        const auto expected = product.definition();
        on_devices<TypeParam>([&](auto& side) { side.expect(product.run(side), expected, "C"); });
      }
    }
  }
}

TYPED_TEST(Gemm, BetaZeroOverwritesNaNAndNaNInAnOperandComesOut) {
  GemmCase<TypeParam> product({9, 21, 40}, 0, 1, 0);
  std::ranges::fill(product.C, std::numeric_limits<TypeParam>::quiet_NaN());
  for (const bool broken : {false, true}) {
    if (broken) product.A[4 * product.lda + 11] = std::numeric_limits<TypeParam>::quiet_NaN();
    const auto expected = product.definition();
    for (std::size_t j = 0; j < 21; ++j) {
      EXPECT_EQ(std::isnan(expected[4 * product.ldc() + j]), broken);
      EXPECT_FALSE(std::isnan(expected[3 * product.ldc() + j]));
    }
    on_devices<TypeParam>([&](auto& side) { side.expect(product.run(side), expected, "C"); });
  }
}

// Larger than the blocks that caches hold (256 rows, 512 columns, sums of 256): what an element
// comes to is its own row and column alone, whatever else is in the product and however it is cut.
TYPED_TEST(Gemm, BitsOfAnElementDoNotDependOnTheProductsSize) {
  using Real = TypeParam;
  if (kOnGpu) GTEST_SKIP() << "cuBLAS does not promise this";
  for (const int transposes : {0, 1, 2, 3}) {
    const GemmCase<Real> whole({531, 1061, 517}, transposes, -0.5, 0.25);
    on_devices<Real>([&](auto& side) {
      const auto all = side.get(whole.run(side));
      for (const std::size_t row : {0, 7, 255, 256, 300, 511, 512, 530}) {
        for (const std::size_t column : {0, 31, 32, 511, 512, 1000, 1040, 1055, 1060}) {
          const std::size_t at = row * whole.ldc() + column;
          Real one = whole.C[at];
          side.device.gemm(whole.a, whole.b, 1, 1, whole.s.k, Real(-0.5),
                           whole.A.data() + row * (whole.a == Transpose::yes ? 1 : whole.lda),
                           whole.lda,
                           whole.B.data() + column * (whole.b == Transpose::yes ? whole.ldb : 1),
                           whole.ldb, Real(0.25), &one, 1);
          EXPECT_EQ(one, all[at]) << row << ", " << column;
        }
      }
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
