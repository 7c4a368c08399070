// Factorisation machines of sparse rows.
#include "linalg/devices.hpp"
#include "linalg/factorization_kernels.hpp"

namespace hetsgd::test {
namespace {

struct FactorShape {
  std::size_t rows, columns, per_row, n, K;
};
const FactorShape kFactorShapes[] = {{0, 5, 2, 3, 2},      {1, 1, 1, 1, 1},     {9, 12, 4, 1, 8},
                                     {130, 40, 12, 1, 8},  {33, 100, 20, 5, 3}, {12, 30, 7, 40, 4},
                                     {40, 300, 30, 50, 16}};

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
    on_devices<Real>([&](auto& side) {
      auto& factors = kernels<BasicFactorizationKernels<Real>>(side.device);
      const auto staged = side.stage(X, true);
      auto W = side.put(V), S = side.room(s.rows * width), Z = side.put(Z0), d = side.put(D),
           G = side.put(G0);
      factors.forward(staged, s.n, s.K, W.data(), S.data(), Z.data());
      side.expect(Z, z, "Z", 10);
      factors.backward(staged, s.n, s.K, Real(-0.3), d.data(), S.data(), W.data(), G.data());
      side.expect(G, g, "G", 10);
      factors.backward(staged, s.n, s.K, Real(-0.3), d.data(), S.data(), W.data(), W.data());
      side.expect(W, stepped, "V", 10);
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
