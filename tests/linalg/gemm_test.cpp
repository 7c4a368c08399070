#include <gtest/gtest.h>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

struct Product {
  std::size_t m, n, k;
};

const Product kProducts[] = {{1, 1, 1},     {3, 5, 7},    {8, 32, 16},   {13, 33, 300},
                             {64, 47, 128}, {128, 1, 64}, {1, 200, 128}, {70, 16, 9},
                             {257, 65, 31}, {5, 7, 0},    {0, 4, 4},     {4, 0, 4},
                             {90, 700, 64}};

template <class Real>
class Gemm : public ::testing::Test {
 protected:
  // op(A) and op(B) stored with rows longer than needed, so that a wrong leading dimension shows.
  static constexpr std::size_t kPad = 3;

  static std::vector<Real> run(int cores, const Product& s, Transpose a, Transpose b, double alpha,
                               double beta, const std::vector<Real>& A, const std::vector<Real>& B,
                               std::vector<Real> C) {
    const std::size_t lda = (a == Transpose::yes ? s.m : s.k) + kPad;
    const std::size_t ldb = (b == Transpose::yes ? s.k : s.n) + kPad;
    make_cpu_device<Real>(cores)->gemm(a, b, s.m, s.n, s.k, Real(alpha), A.data(), lda, B.data(),
                                       ldb, Real(beta), C.data(), s.n + kPad);
    return C;
  }

  static std::vector<double> reference(const Product& s, Transpose a, Transpose b, double alpha,
                                       double beta, const std::vector<Real>& A,
                                       const std::vector<Real>& B, const std::vector<Real>& C) {
    const std::size_t lda = (a == Transpose::yes ? s.m : s.k) + kPad;
    const std::size_t ldb = (b == Transpose::yes ? s.k : s.n) + kPad, ldc = s.n + kPad;
    std::vector<double> result = widen(C);
    for (std::size_t i = 0; i < s.m; ++i) {
      for (std::size_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < s.k; ++k) {
          sum += double(a == Transpose::yes ? A[k * lda + i] : A[i * lda + k]) *
                 double(b == Transpose::yes ? B[j * ldb + k] : B[k * ldb + j]);
        }
        result[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * double(C[i * ldc + j]));
      }
    }
    return result;
  }
};
TYPED_TEST_SUITE(Gemm, RealTypes);

TYPED_TEST(Gemm, MatchesTheTripleLoopForAllTransposesAndFactors) {
  using Real = TypeParam;
  for (const Product& s : kProducts) {
    const std::size_t large = (std::max({s.m, s.n, s.k}) + 3) * (std::max({s.m, s.n, s.k}) + 3);
    const auto A = random_vector<Real>(large, 1), B = random_vector<Real>(large, 2),
               C = random_vector<Real>((s.m + 1) * (s.n + 3), 3);
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
      for (const Transpose b : {Transpose::no, Transpose::yes}) {
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {-0.5, 1.0}, {2.0, 0.25}}) {
          const auto expected = this->reference(s, a, b, alpha, beta, A, B, C);
          SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k);
          const auto one = this->run(1, s, a, b, alpha, beta, A, B, C);
          expect_close(one, expected, kTolerance<Real>, "C");
          EXPECT_EQ(this->run(3, s, a, b, alpha, beta, A, B, C), one) << "bits depend on the cores";
        }
      }
    }
  }
}

TYPED_TEST(Gemm, BetaZeroOverwritesNaNAndNaNInAnOperandComesOut) {
  using Real = TypeParam;
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  const Product s{9, 21, 40};
  auto A = random_vector<Real>(s.m * (s.k + 3), 1);
  const auto B = random_vector<Real>(s.k * (s.n + 3), 2);
  const std::vector<Real> C(s.m * (s.n + 3), nan);
  const auto clean = this->run(1, s, Transpose::no, Transpose::no, 1, 0, A, B, C);
  for (std::size_t i = 0; i < s.m; ++i) {
    for (std::size_t j = 0; j < s.n; ++j) EXPECT_FALSE(std::isnan(clean[i * (s.n + 3) + j]));
  }
  A[4 * (s.k + 3) + 11] = nan;  // row 4
  const auto dirty = this->run(1, s, Transpose::no, Transpose::no, 1, 0, A, B, C);
  for (std::size_t i = 0; i < s.m; ++i) {
    for (std::size_t j = 0; j < s.n; ++j) EXPECT_EQ(std::isnan(dirty[i * (s.n + 3) + j]), i == 4);
  }
}

// Larger than the blocks that caches hold (256 rows, 512 columns, sums of 256): what an element
// comes to is its own row and column alone, whatever else is in the product and however it is cut.
TYPED_TEST(Gemm, BitsOfAnElementDoNotDependOnTheProductsSize) {
  using Real = TypeParam;
  const Product whole{531, 1061, 517};
  const std::size_t large = (whole.n + 3) * (whole.k + 3) + (whole.m + 3) * (whole.k + 3);
  const auto A = random_vector<Real>(large, 1), B = random_vector<Real>(large, 2);
  const auto C = random_vector<Real>((whole.m + 1) * (whole.n + 3), 3);
  const auto device = make_cpu_device<Real>(1);
  for (const Transpose a : {Transpose::no, Transpose::yes}) {
    for (const Transpose b : {Transpose::no, Transpose::yes}) {
      const std::size_t lda = (a == Transpose::yes ? whole.m : whole.k) + this->kPad;
      const std::size_t ldb = (b == Transpose::yes ? whole.k : whole.n) + this->kPad;
      const std::size_t ldc = whole.n + this->kPad;
      const auto all = this->run(1, whole, a, b, -0.5, 0.25, A, B, C);
      EXPECT_EQ(this->run(3, whole, a, b, -0.5, 0.25, A, B, C), all) << "bits depend on the cores";
      for (const std::size_t row : {0, 7, 255, 256, 300, 511, 512, 530}) {
        for (const std::size_t column : {0, 31, 32, 511, 512, 1000, 1040, 1055, 1060}) {
          const std::size_t at = row * ldc + column;
          Real one = C[at];
          device->gemm(
              a, b, 1, 1, whole.k, Real(-0.5), A.data() + row * (a == Transpose::yes ? 1 : lda),
              lda, B.data() + column * (b == Transpose::yes ? ldb : 1), ldb, Real(0.25), &one, 1);
          EXPECT_EQ(one, all[at]) << row << ", " << column;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
