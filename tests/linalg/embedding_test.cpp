// Lookups and updates of an embedding table against their definitions.
#include "linalg/devices.hpp"
#include "linalg/embedding_kernels.hpp"
#include "linalg/field_rows.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class Embedding : public ::testing::Test {};
TYPED_TEST_SUITE(Embedding, RealTypes);

TYPED_TEST(Embedding, GathersRowsBesideTheDenseColumns) {
  using Real = TypeParam;
  for (const FieldShape& s : kFieldShapes) {
    const RandomFields X(s, 1);
    const TableShape table{s.embedding, s.extra};
    const std::size_t width = s.columns + s.fields * s.embedding;
    const auto W = random_vector<Real>(X.categories() * table.row(), 2);
    std::vector<double> y(s.rows * width), z(s.rows);
    for (std::size_t r = 0; r < s.rows; ++r) {
      double* to = y.data() + r * width;
      for (std::size_t j = 0; j < s.columns; ++j) *to++ = double(X.dense_at(r, j));
      for (std::size_t f = 0; f < s.fields; ++f) {
        const Real* const w = W.data() + X.category_at(r, f) * table.row();
        for (std::size_t j = 0; j < s.embedding; ++j) *to++ = double(w[j]);
        if (s.extra > 0) z[r] += double(w[s.embedding]);
      }
    }
    on_devices<Real>([&](auto& side) {
      auto table_rows = side.put(W), Y = side.room(s.rows * width), Z = side.room(s.rows);
      kernels<BasicEmbeddingKernels<Real>>(side.device)
          .gather_rows(side.device.stage(X.view<Real>()), table, table_rows.data(), Y.data(),
                       s.extra > 0 ? Z.data() : nullptr);
      side.expect_exactly(Y, std::vector<Real>(y.begin(), y.end()), "Y");
      if (s.extra > 0) side.expect(Z, z, "z");
    });
  }
}

// The sum is in the order of the samples, then comes one fma: the same bits on any number of cores.
TYPED_TEST(Embedding, AddsUpTheLookupsOfARowThenUpdatesItOnce) {
  using Real = TypeParam;
  for (const FieldShape& s : kFieldShapes) {
    const RandomFields X(s, 3);
    const TableShape table{s.embedding, s.extra};
    const std::size_t width = s.columns + s.fields * s.embedding, C = table.row();
    const auto D = random_vector<Real>(s.rows * width, 4), d = random_vector<Real>(s.rows, 5),
               G0 = random_vector<Real>(X.categories() * C, 6);
    std::vector<Real> sum(G0.size()), expected = G0;
    std::vector<bool> occurs(X.categories());
    for (std::size_t r = 0; r < s.rows; ++r) {
      for (std::size_t f = 0; f < s.fields; ++f) {
        const std::size_t c = X.category_at(r, f);
        occurs[c] = true;
        for (std::size_t j = 0; j < C; ++j) {
          sum[c * C + j] += j < s.embedding ? D[r * width + s.columns + f * s.embedding + j] : d[r];
        }
      }
    }
    for (std::size_t c = 0; c < X.categories(); ++c) {
      if (!occurs[c]) continue;
      for (std::size_t i = c * C; i < (c + 1) * C; ++i) {
        expected[i] = std::fma(Real(-0.3), sum[i], G0[i]);
      }
    }
    on_devices<Real>([&](auto& side) {
      auto& rows = kernels<BasicEmbeddingKernels<Real>>(side.device);
      const auto dense = side.put(D), extra = side.put(d);
      for (int again = 0; again < 2; ++again) {  // scratch is as it was
        auto G = side.put(G0);
        rows.update_rows(side.device.stage(X.view<Real>()), table, Real(-0.3), dense.data(),
                         extra.data(), G.data());
        kOnGpu ? side.expect(G, widen(expected), "G") : side.expect_exactly(G, expected, "G");
      }
    });
  }
}

// fma(-0.3, -0, -0) = 0 + -0 = 0, where a sum that began at 0 would give fma(-0.3, 0, -0) = -0.
TYPED_TEST(Embedding, AGradientByItselfKeepsAllItsBits) {
  using Real = TypeParam;
  if (kOnGpu) GTEST_SKIP() << "its sums begin at 0";
  for (const FieldShape& s : kFieldShapes) {
    const RandomFields X(s, 7);
    const TableShape table{s.embedding, s.extra};
    const std::size_t width = s.columns + s.fields * s.embedding;
    const std::vector<Real> D(s.rows * width, Real(-0.0)), d(s.rows, Real(-0.0));
    std::vector<Real> G(X.categories() * table.row(), Real(-0.0));
    const auto device = make_cpu_device<Real>(1);
    kernels<BasicEmbeddingKernels<Real>>(*device).update_rows(
        device->stage(X.view<Real>()), table, Real(-0.3), D.data(), d.data(), G.data());
    for (std::size_t r = 0; r < s.rows; ++r) {
      for (std::size_t f = 0; f < s.fields; ++f) {
        for (std::size_t j = 0; j < table.row(); ++j) {
          EXPECT_FALSE(std::signbit(G[X.category_at(r, f) * table.row() + j]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
