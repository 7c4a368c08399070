// The factorisation machine and the cross layer against their definitions.
#include "linalg/interaction_kernels.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

struct InteractionShape {
  std::size_t rows, columns, fields, embedding;
};
const InteractionShape kInteractionShapes[] = {
    {0, 2, 3, 4}, {1, 0, 1, 1}, {19, 3, 4, 5}, {40, 13, 26, 16}};

template <class Real>
class Interaction : public ::testing::Test {};
TYPED_TEST_SUITE(Interaction, RealTypes);

// The pairwise term as a double loop over the fields; d/dv_f = the sum of the other fields' v.
TYPED_TEST(Interaction, TheFactorisationMachineIsASumOverPairsOfFields) {
  using Real = TypeParam;
  for (const InteractionShape& s : kInteractionShapes) {
    const std::size_t D = s.embedding;
    const FieldVectors shape{s.columns + s.fields * D, s.columns, s.fields, D};
    const auto Y = random_vector<Real>(s.rows * shape.width, 1), d = random_vector<Real>(s.rows, 2),
               z0 = random_vector<Real>(s.rows, 3),
               dY0 = random_vector<Real>(s.rows * shape.width, 4);
    auto z = widen(z0), dY = widen(dY0);
    for (std::size_t r = 0; r < s.rows; ++r) {
      const std::size_t v = r * shape.width + shape.first;
      for (std::size_t f = 0; f < s.fields; ++f) {
        for (std::size_t g = 0; g < s.fields; ++g) {
          if (f == g) continue;
          for (std::size_t k = 0; k < D; ++k) {
            const double other = double(Y[v + g * D + k]);
            if (f < g) z[r] += double(Y[v + f * D + k]) * other;
            dY[v + f * D + k] += double(d[r]) * other;
          }
        }
      }
    }
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<Real>(cores);
      auto& interaction = kernels<BasicInteractionKernels<Real>>(*device);
      std::vector<Real> S(s.rows * D, Real(7)), Z = z0, G = dY0;
      interaction.fm_forward(s.rows, shape, Y.data(), S.data(), Z.data());
      expect_close(Z, z, 10 * kTolerance<Real>, "z");
      interaction.fm_backward(s.rows, shape, Y.data(), S.data(), d.data(), G.data());
      expect_close(G, dY, 10 * kTolerance<Real>, "dY");
    }
  }
}

TYPED_TEST(Interaction, TheCrossLayerIsItsEquation) {
  using Real = TypeParam;
  for (const auto& [rows, n] : {std::pair<std::size_t, std::size_t>{0, 3}, {1, 1}, {21, 37}}) {
    const auto x0 = random_vector<Real>(rows * n, 1), x = random_vector<Real>(rows * n, 2),
               w = random_vector<Real>(n, 3), b = random_vector<Real>(n, 4),
               g0 = random_vector<Real>(rows * n, 5), dx00 = random_vector<Real>(rows * n, 6);
    std::vector<double> s(rows), t(rows), y(rows * n), g = widen(g0), dx0 = widen(dx00);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t j = 0; j < n; ++j) {
        s[r] += double(x[r * n + j]) * double(w[j]);
        t[r] += double(g0[r * n + j]) * double(x0[r * n + j]);
      }
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t i = r * n + j;
        y[i] = double(x0[i]) * s[r] + double(b[j]) + double(x[i]);
        dx0[i] += double(g0[i]) * s[r];
        g[i] += t[r] * double(w[j]);
      }
    }
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<Real>(cores);
      auto& interaction = kernels<BasicInteractionKernels<Real>>(*device);
      std::vector<Real> S(rows), T(rows), Y(rows * n), G = g0, dX = dx00;
      interaction.cross_forward(rows, n, x0.data(), x.data(), w.data(), b.data(), S.data(),
                                Y.data());
      expect_close(S, s, 10 * kTolerance<Real>, "s");
      expect_close(Y, y, 10 * kTolerance<Real>, "y");
      interaction.cross_backward(rows, n, x0.data(), w.data(), S.data(), T.data(), G.data(),
                                 dX.data());
      expect_close(T, t, 10 * kTolerance<Real>, "t");
      expect_close(dX, dx0, 10 * kTolerance<Real>, "dx0");
      expect_close(G, g, 10 * kTolerance<Real>, "g");
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
