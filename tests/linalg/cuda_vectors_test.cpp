// Vector kernels of a GPU.
#include "linalg/cuda_compare.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaVectors : public ::testing::Test {};
TYPED_TEST_SUITE(CudaVectors, RealTypes);

const std::size_t kGpuSizes[] = {0, 1, 255, 256, 1024, 1025, 4097, 100'003};

TYPED_TEST(CudaVectors, Vectors) {
  for (const std::size_t n : kGpuSizes) {
    SCOPED_TRACE(n);
    compare<TypeParam>([n](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& device = side.device;
      auto x = side.put(random_vector<float>(n, 1)), y = side.put(random_vector<float>(n, 2));
      auto z = side.put(std::vector<float>(n, kNan)), v = side.put(std::vector<float>(n, kNan));
      side.take(device.dot(n, x.data(), y.data()));
      side.take(device.squared_norm(n, x.data()));
      const Products products = device.products(n, x.data(), y.data());
      for (const double sum : {products.xy, products.xx, products.yy}) side.take(sum);
      device.apply(n, rule::Combine<Real>{1.0 / 3, -0.7}, x.data(), y.data(), z.data());
      side.take(z);
      device.axpby(n, Real(2), x.data(), Real(0), z.data());  // never reads z
      side.take(z);
      device.axpby(n, Real(-0.5), y.data(), Real(1), z.data());
      device.axpby(n, Real(0.25), x.data(), Real(0.75), z.data());
      side.take(z);
      device.axpby(n, Real(3), z.data(), Real(0), z.data());
      side.take(z);
      device.copy(n, z.data(), v.data());
      device.apply(n, rule::MomentumMerge<Real>{Real(0.9)}, x.data(), v.data(), y.data());
      side.take(v);
      side.take(y);
      device.fill(n, Real(7), v.data());
      side.take(v);
    });
  }
}

TYPED_TEST(CudaVectors, OptimizerUpdates) {
  for (const std::size_t n : kGpuSizes) {
    SCOPED_TRACE(n);
    compare<TypeParam>([n](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& device = side.device;
      auto g = side.put(random_vector<float>(n, 1)), w = side.put(random_vector<float>(n, 2));
      auto m = side.put(random_vector<float>(n, 3)), v = side.put(random_vector<float>(n, 4, 0, 1));
      device.apply(n,
                   rule::MomentumStep<Real>{.gradient = Real(0.5),
                                            .decay = Real(0.1),
                                            .momentum = Real(0.9),
                                            .velocity = Real(0.3),
                                            .direct = Real(0.2)},
                   g.data(), m.data(), w.data());
      side.take(m);
      side.take(w);
      const rule::Moments<Real> moments{.gradient = Real(0.5),
                                        .decay = Real(0.1),
                                        .beta1 = Real(0.9),
                                        .beta2 = Real(0.75),
                                        .fresh1 = Real(0.1),
                                        .fresh2 = Real(0.25),
                                        .first = Real(1.5),
                                        .second = Real(2),
                                        .epsilon = Real(0.1),
                                        .shrink = Real(0.2)};
      device.apply(n, rule::MomentStep<Real>{moments, Real(0.3)}, g.data(), m.data(), v.data(),
                   w.data());
      side.take(w);
      side.take(device.apply_norm(n, rule::MomentUpdate<Real>{moments}, g.data(), w.data(),
                                  m.data(), v.data()));
      device.apply(n, rule::MomentApply<Real>{moments, Real(0.3)}, m.data(), v.data(), w.data());
      side.take(m);
      side.take(v);
      side.take(w);
    });
  }
}

TYPED_TEST(CudaVectors, Rows) {
  for (const std::size_t n : {1UL, 9UL, 128UL, 600UL}) {
    for (const std::size_t count : {0UL, 1UL, 50UL}) {
      SCOPED_TRACE(::testing::Message() << count << " rows of " << n);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        std::vector<std::uint32_t> rows;
        for (std::uint32_t r = 0; r < count; ++r) rows.push_back((r * 37 + 11) % 101);
        auto X = side.put(random_vector<float>(101 * n, 1));
        auto Y = side.put(random_vector<float>(101 * n, 2));
        side.device.apply_rows(rows, n, rule::AddScaled<Real>{Real(-0.5)}, X.data(), Y.data());
        side.take(Y);
        side.device.apply_rows(rows, n, rule::Fill<Real>{3}, X.data());
        std::fill(rows.begin(), rows.end(), 0U);  // they may be reused at once
        side.take(X);
      });
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
