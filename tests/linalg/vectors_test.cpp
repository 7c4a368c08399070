// Vectors, sums and the rules of the optimizers.
#include <limits>

#include "linalg/devices.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class Vectors : public ::testing::Test {};
TYPED_TEST_SUITE(Vectors, RealTypes);

// Odd sizes around vector lengths, blocks of apply_norm and of a GPU, and one shared by several
// cores.
const std::size_t kSizes[] = {0, 1, 7, 33, 255, 256, 1000, 1024, 1025, 4097, 200'003};

TYPED_TEST(Vectors, MemoryIsAlignedAndTransfersRoundTrip) {
  on_devices<TypeParam>([](auto& side) {
    auto& device = side.device;
    for (const std::size_t bytes :
         {0UL, 1UL, 100UL, 4UL << 20, (4UL << 20) + 3, (21UL << 20) + 5}) {
      std::vector<char> host(bytes), back(bytes);
      for (std::size_t i = 0; i < bytes; ++i) host[i] = static_cast<char>(i * 7 + i / 1000);
      const std::vector<char> original = host;
      void* const memory = device.allocate(bytes);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
      EXPECT_EQ(device.host_accessible(memory), !kOnGpu);
      EXPECT_TRUE(device.host_accessible(host.data()));
      device.upload(memory, host.data(), bytes);
      std::ranges::fill(host, 'x');  // the host may reuse its memory
      device.download(back.data(), memory, bytes);
      EXPECT_TRUE(back == original);
      device.release(memory);
    }
    EXPECT_TRUE(device.host_accessible(nullptr));
  });
}

TYPED_TEST(Vectors, MemoryThatIsNotThereIsAnError) {
  on_devices<TypeParam>([](auto& side) {
    for (const std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0}}) {
      if (kOnGpu && bytes > std::size_t{1} << 50) continue;
      const Failure failure = failure_of([&] { side.device.allocate(bytes); });
      EXPECT_EQ(failure.code, ExitCode::device);
      EXPECT_FALSE(failure.hint.empty()) << failure.message;
    }
    const auto x = side.put(std::vector<float>{1, 2, 3});  // and the device is as good as before
    EXPECT_EQ(side.device.squared_norm(3, x.data()), 14);
  });
}

TYPED_TEST(Vectors, ElementwiseKernelsMatchTheirDefinition) {
  using Real = TypeParam;
  for (const std::size_t n : kSizes) {
    const auto x = random_vector<Real>(n, 1), y = random_vector<Real>(n, 2),
               z = random_vector<Real>(n, 3);
    on_devices<Real>([&](auto& side) {
      auto& device = side.device;
      auto X = side.put(x), Y = side.room(n), Z = side.put(z);
      device.axpby(n, Real(1), X.data(), Real(0), Y.data());  // never reads y
      side.expect_exactly(Y, x, "axpby with beta 0");
      device.fill(n, Real(3), Y.data());
      side.expect_exactly(Y, std::vector<Real>(n, Real(3)), "fill");
      device.copy(n, Z.data(), Y.data());
      side.expect_exactly(Y, z, "copy");
      for (const double b : {1.0, 0.25}) {
        Y = side.put(y);
        device.axpby(n, Real(-0.5), X.data(), Real(b), Y.data());
        side.expect(Y, numbers(n, [&](auto i) { return -0.5 * double(x[i]) + b * double(y[i]); }),
                    "axpby");
      }
      // Lines 11 and 12 of Algorithm 2 of Adaptive SGD.
      Y = side.put(y);
      device.apply(n, rule::MomentumMerge<Real>{Real(0.9)}, X.data(), Y.data(), Z.data());
      side.expect(Y,
                  numbers(n,
                          [&](auto i) {
                            return double(x[i]) + double(Real(0.9)) * (double(y[i]) - double(z[i]));
                          }),
                  "merged");
      side.expect_exactly(Z, y, "the model before");
    });
  }
}

// Lines 9, 10, 12 and 13 of algorithm 1 of CROSSBOW, as vectors.
TYPED_TEST(Vectors, ModelAveragingMatchesItsDefinition) {
  using Real = TypeParam;
  const Real a(0.25), mu(0.9);
  for (const std::size_t n : kSizes) {
    const auto w = random_vector<Real>(n, 1), z = random_vector<Real>(n, 2),
               s = random_vector<Real>(n, 3), before = random_vector<Real>(n, 4);
    const auto difference = [&](auto i) { return double(w[i]) - double(z[i]); };
    const auto moved = [&](auto i) { return double(z[i]) + double(s[i]); };
    on_devices<Real>([&](auto& side) {
      auto& device = side.device;
      auto W = side.put(w), Z = side.put(z), B = side.put(before), D = side.room(n);
      auto S = side.put(std::vector<Real>(n, std::numeric_limits<Real>::quiet_NaN()));
      device.apply(n, rule::Correction<Real>{a, Real(0)}, W.data(), Z.data(), S.data(), D.data());
      side.expect(S, numbers(n, [&](auto i) { return 0.25 * difference(i); }), "the first c");
      S = side.put(s);
      device.apply(n, rule::Correction<Real>{a, Real(1)}, W.data(), Z.data(), S.data(), D.data());
      side.expect(D, numbers(n, difference), "d");
      side.expect(S, numbers(n, [&](auto i) { return double(s[i]) + 0.25 * difference(i); }),
                  "the sum of c");
      S = side.put(s);
      D = side.put(before);
      const auto corrected =
          numbers(n, [&](auto i) { return double(w[i]) - 0.25 * double(before[i]); });
      device.apply(n, rule::Averaging<Real>{a}, D.data(), S.data(), W.data(), Z.data());
      side.expect(W, corrected, "the replica");
      side.expect(Z, numbers(n, moved), "the average without momentum");
      W = side.put(w), Z = side.put(z);
      device.apply(n, rule::MomentumAveraging<Real>{a, mu}, D.data(), S.data(), W.data(), Z.data(),
                   B.data());
      side.expect(W, corrected, "the replica");
      side.expect(Z,
                  numbers(n,
                          [&](auto i) {
                            return moved(i) + double(mu) * (double(z[i]) - double(before[i]));
                          }),
                  "the average with momentum");
      side.expect_exactly(B, z, "the average before");
    });
  }
}

TYPED_TEST(Vectors, SumsAndCombinationAreMadeInDouble) {
  using Real = TypeParam;
  const double tolerance = kOnGpu ? kTolerance<Real> : 1e-13;
  for (const std::size_t n : kSizes) {
    const auto x = random_vector<Real>(n, 3), y = random_vector<Real>(n, 4);
    long double xy = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto a = static_cast<long double>(x[i]), b = static_cast<long double>(y[i]);
      xy += a * b, xx += a * a, yy += b * b;
    }
    const double size = tolerance * std::max(1.0, double(xx));
    on_devices<Real>([&](auto& side) {
      auto& device = side.device;
      auto X = side.put(x), Y = side.put(y), Z = side.room(n);
      const Products products = device.products(n, X.data(), Y.data());
      for (const double sum : {products.xy, device.dot(n, X.data(), Y.data())}) {
        EXPECT_NEAR(sum, double(xy), size);
        side.take(sum);
      }
      side.expect(products.xx, double(xx), tolerance, "xx");
      side.expect(products.yy, double(yy), tolerance, "yy");
      side.expect(device.squared_norm(n, X.data()), double(xx), tolerance, "squared norm");
      const auto expected = numbers(n, [&](auto i) {
        return static_cast<Real>(std::fma(1.0 / 3, double(x[i]), -0.7 * double(y[i])));
      });
      const rule::Combine<Real> combine{1.0 / 3, -0.7};
      device.apply(n, combine, X.data(), Y.data(), Z.data());
      side.expect(Z, expected, "combination");
      device.apply(n, combine, X.data(), Y.data(), Y.data());
      side.expect_exactly(Y, side.get(Z), "combination in place");
    });
  }
}

TYPED_TEST(Vectors, RowKernelsTouchTheNamedRowsAlone) {
  using Real = TypeParam;
  constexpr std::uint32_t kRows = 101;
  for (const std::size_t n : {1UL, 9UL, 17UL, 128UL, 600UL, 5000UL}) {
    for (const std::uint32_t count : {0U, 1U, 4U, 50U}) {
      std::vector<std::uint32_t> rows;
      for (std::uint32_t r = 0; r < count; ++r) rows.push_back((r * 37 + 11) % kRows);
      const auto x = random_vector<Real>(kRows * n, 8), y = random_vector<Real>(kRows * n, 9);
      auto sum = widen(y);
      auto filled = y;
      for (const std::uint32_t r : rows) {
        for (std::size_t i = r * n; i < (r + 1) * n; ++i) {
          sum[i] += 2 * double(x[i]);
          filled[i] = Real(-1);
        }
      }
      on_devices<Real>([&](auto& side) {
        auto X = side.put(x), Y = side.put(y), Z = side.put(y);
        auto named = rows;
        side.device.apply_rows(named, n, rule::AddScaled<Real>{2}, X.data(), Y.data());
        side.device.apply_rows(named, n, rule::Fill<Real>{-1}, Z.data());
        std::ranges::fill(named, 0U);  // they may be reused at once
        side.expect(Y, sum, "sum");
        side.expect_exactly(Z, filled, "filled");
      });
    }
  }
}

// Operands of an update: v is a mean of squares, so not negative.
template <class Real>
struct Operands {
  explicit Operands(std::size_t n)
      : g(random_vector<Real>(n, 1)),
        m(random_vector<Real>(n, 2)),
        v(random_vector<Real>(n, 3, 0.01, 1)),
        w(random_vector<Real>(n, 4)) {}
  std::vector<Real> g, m, v, w;
};

template <class Real>
rule::Moments<Real> some_moments() {
  return {.gradient = Real(0.5),
          .decay = Real(0.125),
          .beta1 = Real(0.75),
          .beta2 = Real(0.875),
          .fresh1 = Real(0.25),
          .fresh2 = Real(0.125),
          .first = Real(1.5),
          .second = Real(2),
          .epsilon = Real(0.0625),
          .shrink = Real(0.25)};
}

TYPED_TEST(Vectors, MomentumStepIsItsDefinition) {
  using Real = TypeParam;
  const rule::MomentumStep<Real> step{.gradient = Real(0.5),
                                      .decay = Real(0.125),
                                      .momentum = Real(0.75),
                                      .velocity = Real(0.25),
                                      .direct = Real(0.375)};
  for (const std::size_t n : kSizes) {
    const Operands<Real> x(n);
    const auto u =
        numbers(n, [&](auto i) { return 0.5 * double(x.g[i]) + 0.125 * double(x.w[i]); });
    const auto v = numbers(n, [&](auto i) { return 0.75 * double(x.v[i]) + u[i]; });
    on_devices<Real>([&](auto& side) {
      auto G = side.put(x.g), V = side.put(x.v), W = side.put(x.w);
      side.device.apply(n, step, G.data(), V.data(), W.data());
      side.expect(V, v, "v");
      side.expect(W, numbers(n, [&](auto i) { return x.w[i] - 0.25 * v[i] - 0.375 * u[i]; }), "w");
      side.expect_exactly(G, x.g, "g");
    });
  }
}

// Moments in one pass, and in two with the norm of the step between them.
TYPED_TEST(Vectors, MomentsAreTheirDefinition) {
  using Real = TypeParam;
  const rule::Moments<Real> moments = some_moments<Real>();
  for (const std::size_t n : kSizes) {
    const Operands<Real> x(n);
    std::vector<double> m(n), v(n), w(n);
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double u = 0.5 * double(x.g[i]) + 0.125 * double(x.w[i]);
      m[i] = 0.75 * double(x.m[i]) + 0.25 * u;
      v[i] = 0.875 * double(x.v[i]) + 0.125 * u * u;
      const double r = 1.5 * m[i] / (std::sqrt(2 * v[i]) + 0.0625) + 0.25 * double(x.w[i]);
      w[i] = double(x.w[i]) - 0.5 * r;
      squares += r * r;
    }
    on_devices<Real>([&](auto& side) {
      auto& device = side.device;
      for (const bool with_norm : {false, true}) {
        auto G = side.put(x.g), M = side.put(x.m), V = side.put(x.v), W = side.put(x.w);
        if (with_norm) {
          side.expect(device.apply_norm(n, rule::MomentUpdate<Real>{moments}, G.data(), W.data(),
                                        M.data(), V.data()),
                      squares, kTolerance<Real>, "squares of the step");
          side.expect_exactly(W, x.w, "w before the step");
          device.apply(n, rule::MomentApply<Real>{moments, Real(0.5)}, M.data(), V.data(),
                       W.data());
        } else {
          device.apply(n, rule::MomentStep<Real>{moments, Real(0.5)}, G.data(), M.data(), V.data(),
                       W.data());
        }
        side.expect(M, m, "m");
        side.expect(V, v, "v");
        side.expect(W, w, "w");
        side.expect_exactly(G, x.g, "g");
      }
    });
  }
}

TYPED_TEST(Vectors, NotANumberStaysWhereItIs) {
  using Real = TypeParam;
  Operands<Real> x(100);
  x.g[41] = std::numeric_limits<Real>::quiet_NaN();
  const rule::Moments<Real> moments = some_moments<Real>();
  on_devices<Real>([&](auto& side) {
    auto G = side.put(x.g), M = side.put(x.m), V = side.put(x.v), W = side.put(x.w);
    side.device.apply(100, rule::MomentStep<Real>{moments, Real(0.5)}, G.data(), M.data(), V.data(),
                      W.data());
    const auto w = side.get(W);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(std::isnan(w[i]), i == 41) << i;
    EXPECT_TRUE(std::isnan(side.device.apply_norm(100, rule::MomentUpdate<Real>{moments}, G.data(),
                                                  W.data(), M.data(), V.data())));
  });
}

}  // namespace
}  // namespace hetsgd::test
