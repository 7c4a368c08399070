#include <gtest/gtest.h>

#include "linalg/factorization_kernels.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

struct FactorShape {
  std::size_t rows, columns, per_row, n, K;
};
const FactorShape kFactorShapes[] = {
    {0, 5, 2, 3, 2}, {1, 1, 1, 1, 1}, {9, 12, 4, 1, 8}, {33, 100, 20, 5, 3}, {12, 30, 7, 40, 4}};

template <class Real>
class Factorization : public ::testing::Test {};
TYPED_TEST_SUITE(Factorization, RealTypes);

// The pairwise term by its definition, a sum over pairs; the gradient by its own.
TYPED_TEST(Factorization, MatchesTheSumOverPairs) {
  using Real = TypeParam;
  for (const FactorShape& s : kFactorShapes) {
    const RandomSparse X(s.rows, s.columns, s.per_row, 1);
    const auto x = X.dense(true);
    const std::size_t width = s.n * s.K;
    const auto V = random_vector<Real>(s.columns * width, 2),
               Z0 = random_vector<Real>(s.rows * s.n, 3), D = random_vector<Real>(s.rows * s.n, 4),
               G0 = random_vector<Real>(s.columns * width, 5);
    auto z = widen(Z0), g = widen(G0), stepped = widen(V);
    for (std::size_t r = 0; r < s.rows; ++r) {
      for (std::size_t i = 0; i < s.columns; ++i) {
        for (std::size_t j = 0; j < s.columns; ++j) {
          const double pair = x[r * s.columns + i] * x[r * s.columns + j];
          if (i == j || pair == 0) continue;
          for (std::size_t f = 0; f < width; ++f) {
            const double vi = double(V[i * width + f]), vj = double(V[j * width + f]);
            z[r * s.n + f / s.K] += pair * vi * vj / 2;  // every pair comes twice
            const double gradient = -0.3 * double(D[r * s.n + f / s.K]) * pair * vj;
            g[i * width + f] += gradient;
            stepped[i * width + f] += gradient;
          }
        }
      }
    }
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<Real>(cores);
      auto& factors = kernels<BasicFactorizationKernels<Real>>(*device);
      const auto staged = X.template view<Real>(true);
      std::vector<Real> S(s.rows * width, Real(7)), Z = Z0, G = G0, W = V;
      for (int again = 0; again < 2; ++again) {  // scratch is as it was
        Z = Z0, G = G0, W = V;
        factors.forward(staged, s.n, s.K, V.data(), S.data(), Z.data());
        expect_close(Z, z, 10 * kTolerance<Real>, "Z");
        factors.backward(staged, s.n, s.K, Real(-0.3), D.data(), S.data(), V.data(), G.data());
        expect_close(G, g, 10 * kTolerance<Real>, "G");
        factors.backward(staged, s.n, s.K, Real(-0.3), D.data(), S.data(), W.data(), W.data());
        expect_close(W, stepped, 10 * kTolerance<Real>, "V");
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
