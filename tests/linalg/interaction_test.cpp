// The factorisation machine and the cross layer against their definitions.
#include "linalg/devices.hpp"
#include "linalg/interaction_kernels.hpp"

namespace hetsgd::test {
namespace {

struct InteractionShape {
  std::size_t rows, columns, fields, embedding;
};
const InteractionShape kInteractionShapes[] = {
    {0, 2, 3, 4}, {1, 0, 1, 1}, {19, 3, 4, 5}, {70, 3, 4, 5}, {40, 13, 26, 16}};

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
    on_devices<Real>([&](auto& side) {
      auto& interaction = kernels<BasicInteractionKernels<Real>>(side.device);
      auto X = side.put(Y), S = side.room(s.rows * D), Z = side.put(z0), dz = side.put(d),
           G = side.put(dY0);
      interaction.fm_forward(s.rows, shape, X.data(), S.data(), Z.data());
      side.expect(Z, z, "z", 10);
      interaction.fm_backward(s.rows, shape, X.data(), S.data(), dz.data(), G.data());
      side.expect(G, dY, "dY", 10);
    });
  }
}

TYPED_TEST(Interaction, TheCrossLayerIsItsEquation) {
  using Real = TypeParam;
  for (const auto& [rows, n] :
       {std::pair<std::size_t, std::size_t>{0, 3}, {1, 1}, {21, 37}, {70, 23}, {40, 429}}) {
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
    on_devices<Real>([&](auto& side) {
      auto& interaction = kernels<BasicInteractionKernels<Real>>(side.device);
      auto X0 = side.put(x0), X = side.put(x), W = side.put(w), B = side.put(b),
           S = side.room(rows), T = side.room(rows), Y = side.room(rows * n), G = side.put(g0),
           dX = side.put(dx00);
      interaction.cross_forward(rows, n, X0.data(), X.data(), W.data(), B.data(), S.data(),
                                Y.data());
      side.expect(S, s, "s", 10);
      side.expect(Y, y, "y", 10);
      interaction.cross_backward(rows, n, X0.data(), W.data(), S.data(), T.data(), G.data(),
                                 dX.data());
      side.expect(T, t, "t", 10);
      side.expect(dX, dx0, "dx0", 10);
      side.expect(G, g, "g", 10);
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
