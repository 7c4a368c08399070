// Pooling, normalisations, dropout and joins by their definitions; gradients of normalisations by
// central differences of their definitions.
#include <functional>
#include <numeric>

#include "linalg/devices.hpp"
#include "linalg/image_kernels.hpp"
#include "linalg/normalisation_kernels.hpp"
#include "support/image_shapes.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class Images : public ::testing::Test {};
TYPED_TEST_SUITE(Images, RealTypes);

// Times the tolerance: what central differences leave of a double's digits.
template <class Real>
constexpr double kNumeric = sizeof(Real) == 4 ? 1 : 1e5;

using Function = std::function<std::vector<double>(const std::vector<double>&)>;

// dX = sum over outputs of dY times the derivative of the output by X, numerically.
template <class Real>
std::vector<double> numeric_gradient(const std::vector<double>& X, const std::vector<Real>& dY,
                                     const Function& forward) {
  std::vector<double> dX(X.size());
  for (std::size_t i = 0; i < X.size(); ++i) {
    constexpr double kStep = 1e-6;
    std::vector<double> up = X, down = X;
    up[i] += kStep;
    down[i] -= kStep;
    const std::vector<double> high = forward(up), low = forward(down);
    for (std::size_t j = 0; j < dY.size(); ++j) {
      dX[i] += double(dY[j]) * (high[j] - low[j]) / (2 * kStep);
    }
  }
  return dX;
}

// Calls of a gradient, with beta 0 over NaN and with beta 1. Nothing is written behind it.
template <class S, class Call>
void expect_gradient(S& side, std::vector<double> expected, double times, const Call& call) {
  using Real = typename S::Real;
  expected.push_back(NAN);
  auto dX = side.room(expected.size());
  call(Real(0), dX.data());
  side.expect(dX, expected, "dX", times);
  const auto before = random_vector<Real>(expected.size(), 9);
  dX = side.put(before);
  call(Real(1), dX.data());
  expected.back() = 0;
  side.expect(dX, numbers(expected.size(), [&](auto i) { return expected[i] + double(before[i]); }),
              "dX added", times);
}

// A byte for each of `count` numbers, and one behind them.
template <class S>
struct Bytes {
  Bytes(S& side, std::size_t count)
      : device(side.device), room(side.room(count + 1)), host(count + 1, 77) {
    device.upload(data(), host.data(), host.size());
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(room.data()); }
  std::vector<std::uint8_t> get() {
    device.download(host.data(), data(), host.size());
    EXPECT_EQ(host.back(), 77);
    return {host.begin(), host.end() - 1};
  }
  BasicDevice<typename S::Real>& device;
  BasicBuffer<typename S::Real> room;
  std::vector<std::uint8_t> host;
};

struct PoolReference {
  std::vector<double> Y, dX;
  std::vector<std::uint8_t> index;
};

// Among equal cells the first is the largest, and NaN is larger than all others.
template <class Real>
PoolReference pool_by_definition(const PoolShape& s, std::size_t n, const std::vector<Real>& X,
                                 const std::vector<Real>& dY) {
  PoolReference r{std::vector<double>(n * s.outputs()), std::vector<double>(n * s.inputs()), {}};
  for (std::size_t y = 0; y < r.Y.size(); ++y) {
    const std::size_t map = y / (s.out_height * s.out_width), h = y / s.out_width % s.out_height,
                      w = y % s.out_width;
    std::vector<std::size_t> cells, places;
    for (std::size_t i = 0; i < s.kernel_height; ++i) {
      for (std::size_t j = 0; j < s.kernel_width; ++j) {
        const std::size_t row = h * s.stride + i - s.padding_height,
                          column = w * s.stride + j - s.padding_width;
        if (row >= s.in_height || column >= s.in_width) continue;  // below zero, too
        cells.push_back((map * s.in_height + row) * s.in_width + column);
        places.push_back(i * s.kernel_width + j);
      }
    }
    std::size_t best = 0;
    double sum = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const double x = X[cells[i]], largest = X[cells[best]];
      sum += x;
      if (!std::isnan(largest) && (std::isnan(x) || x > largest)) best = i;
    }
    const auto count =
        static_cast<double>(s.count_padding ? s.kernel_height * s.kernel_width : cells.size());
    r.Y[y] = s.maximum ? double(X[cells[best]]) : sum / count;
    r.index.push_back(static_cast<std::uint8_t>(places[best]));
    if (s.maximum) {
      r.dX[cells[best]] += double(dY[y]);
    } else {
      for (const std::size_t cell : cells) r.dX[cell] += double(dY[y]) / count;
    }
  }
  return r;
}

// Nothing is written behind the maps. Also many small maps, of which a core pools several as one.
TYPED_TEST(Images, Pools) {
  using Real = TypeParam;
  std::vector<std::pair<PoolShape, std::size_t>> cases = {{pool_of(5, 6, 4, 2, 2, 0, true), 301}};
  for (const PoolShape& s : pool_shapes()) cases.emplace_back(s, 3);
  for (const auto& [s, n] : cases) {
    auto x = random_vector<Real>(n * s.inputs(), 1);
    x[4] = std::numeric_limits<Real>::quiet_NaN();
    x[7] = x[8];
    const auto dy = random_vector<Real>(n * s.outputs(), 2);
    PoolReference expected = pool_by_definition(s, n, x, dy);
    expected.Y.push_back(NAN);
    on_devices<Real>([&](auto& side) {
      auto& images = kernels<BasicImageKernels<Real>>(side.device);
      const auto X = side.put(x), dY = side.put(dy);
      auto Y = side.room(n * s.outputs() + 1);
      Bytes index(side, n * s.outputs());
      for (const bool by_index : {true, false}) {  // else maxima are found by their values
        std::uint8_t* const places = by_index ? index.data() : nullptr;
        images.pool(s, n, X.data(), Y.data(), places);
        side.expect(Y, expected.Y, "Y");
        expect_gradient(side, expected.dX, 1, [&](Real beta, Real* dX) {
          images.pool_gradient(s, n, by_index ? nullptr : X.data(), by_index ? nullptr : Y.data(),
                               places, dY.data(), beta, dX);
        });
      }
      if (s.maximum) {
        EXPECT_EQ(index.get(), expected.index);
      }
    });
  }
}

TYPED_TEST(Images, ReluAndItsGradientInPlace) {
  using Real = TypeParam;
  for (const std::size_t count : {4UL, 333UL, 40'003UL}) {
    auto x = random_vector<Real>(count, 1);
    x[2] = 0;
    x[3] = std::numeric_limits<Real>::quiet_NaN();
    const auto dy = random_vector<Real>(count, 2);
    const auto y = numbers(count, [&](auto i) { return x[i] < 0 ? Real(0) : x[i]; });
    on_devices<Real>([&](auto& side) {
      auto& images = kernels<BasicImageKernels<Real>>(side.device);
      auto X = side.put(x), Y = side.room(count), dY = side.put(dy);
      images.relu(count, X.data(), Y.data());
      side.expect_exactly(Y, std::vector<Real>(y.begin(), y.end()), "Y");
      const auto expected = numbers(count, [&](auto i) { return y[i] <= 0 ? Real(0) : dy[i]; });
      expect_gradient(side, expected, 1, [&](Real beta, Real* dX) {
        images.relu_gradient(count, Y.data(), dY.data(), beta, dX);
      });
      images.relu_gradient(count, Y.data(), dY.data(), 0, dY.data());
      side.expect(dY, expected, "in place");
    });
  }
}

// The law and its gradient, which may take the place of dY.
TYPED_TEST(Images, ResponseNormalisation) {
  using Real = TypeParam;
  for (const auto& [n, channels, pixels] :
       {std::tuple<std::size_t, std::size_t, std::size_t>{2, 7, 6}, {3, 1, 40}, {3, 33, 1}}) {
    for (const std::size_t size : {5UL, 4UL, 1UL}) {
      const ResponseNormalisation<Real> law{size, Real(0.75), Real(0.75), Real(1.5)};
      const auto x = random_vector<Real>(n * channels * pixels, 1),
                 dy = random_vector<Real>(x.size(), 2);
      const Function definition = [&](const std::vector<double>& at) {
        return numbers(at.size(), [&](auto i) {
          const std::size_t c = i / pixels % channels;
          double sum = 0;
          for (std::size_t other = 0; other < channels; ++other) {
            if (other + (size - 1) / 2 < c || other > c + size / 2) continue;
            const double each = at[i + other * pixels - c * pixels];
            sum += each * each;
          }
          return at[i] / std::pow(1.5 + 0.75 / static_cast<double>(size) * sum, 0.75);
        });
      };
      const auto y = definition(widen(x)), gradient = numeric_gradient(widen(x), dy, definition);
      on_devices<Real>([&](auto& side) {
        auto& kernel = kernels<BasicNormalisationKernels<Real>>(side.device);
        auto X = side.put(x), dY = side.put(dy), Y = side.room(x.size());
        kernel.response_normalisation(law, n, channels, pixels, X.data(), Y.data());
        side.expect(Y, y, "Y");
        const auto call = [&](Real beta, Real* dX) {
          kernel.response_normalisation_gradient(law, n, channels, pixels, X.data(), Y.data(),
                                                 dY.data(), beta, dX);
        };
        expect_gradient(side, gradient, kNumeric<Real>, call);
        call(0, dY.data());
        side.expect(dY, gradient, "in place", kNumeric<Real>);
      });
    }
  }
}

TYPED_TEST(Images, BatchNormalisation) {
  using Real = TypeParam;
  const double epsilon = 1e-3;
  for (const auto& [n, channels, pixels] :
       {std::tuple<std::size_t, std::size_t, std::size_t>{3, 4, 5}, {3, 1, 300}, {4, 33, 1}}) {
    const auto x = random_vector<Real>(n * channels * pixels, 1),
               scale = random_vector<Real>(channels, 2, 0.5, 2),
               shift = random_vector<Real>(channels, 3), dy = random_vector<Real>(x.size(), 4);
    const auto count = static_cast<double>(n * pixels);
    const auto channel = [&](std::size_t i) { return i / pixels % channels; };
    const auto statistics_of = [&](const std::vector<double>& at) {
      std::vector<double> s(2 * channels);
      for (std::size_t i = 0; i < at.size(); ++i) s[channel(i)] += at[i] / count;
      for (std::size_t i = 0; i < at.size(); ++i) {
        s[channels + channel(i)] += std::pow(at[i] - s[channel(i)], 2) / count;
      }
      return s;
    };
    const auto unit = [&](const std::vector<double>& at) {  // mean 0 and deviation 1
      const auto s = statistics_of(at);
      return numbers(at.size(), [&](auto i) {
        return (at[i] - s[channel(i)]) / std::sqrt(s[channels + channel(i)] + epsilon);
      });
    };
    const Function definition = [&](const std::vector<double>& at) {
      const auto u = unit(at);
      return numbers(at.size(), [&](auto i) {
        return double(scale[channel(i)]) * u[i] + double(shift[channel(i)]);
      });
    };
    const auto u = unit(widen(x)), dX = numeric_gradient(widen(x), dy, definition);
    std::vector<double> G(channels), g(channels);
    for (std::size_t i = 0; i < x.size(); ++i) {
      G[channel(i)] += double(dy[i]) * u[i];
      g[channel(i)] += double(dy[i]);
    }
    on_devices<Real>([&](auto& side) {
      auto& kernel = kernels<BasicNormalisationKernels<Real>>(side.device);
      auto X = side.put(x), dY = side.put(dy), Y = side.room(x.size()), a = side.put(scale),
           b = side.put(shift), statistics = side.room(2 * channels),
           by_scale = side.room(channels), by_shift = side.room(channels);
      const auto e = static_cast<Real>(epsilon);
      kernel.channel_statistics(n, channels, pixels, X.data(), statistics.data());
      side.expect(statistics, statistics_of(widen(x)), "statistics");
      kernel.normalise(n, channels, pixels, X.data(), statistics.data(), e, a.data(), b.data(),
                       Y.data());
      side.expect(Y, definition(widen(x)), "Y", 2);
      expect_gradient(side, dX, kNumeric<Real>, [&](Real beta, Real* to) {
        kernel.normalise_gradient(n, channels, pixels, X.data(), statistics.data(), e, a.data(),
                                  dY.data(), beta, to, 1, 0, by_scale.data(), by_shift.data());
      });
      side.expect(by_scale, G, "G", 2);
      side.expect(by_shift, g, "g", 2);
      kernel.normalise_gradient(n, channels, pixels, X.data(), statistics.data(), e, a.data(),
                                dY.data(), 0, nullptr, Real(-0.5), 1, a.data(), b.data());
      side.expect(a, numbers(channels, [&](auto c) { return double(scale[c]) - 0.5 * G[c]; }),
                  "scale that has moved", 2);
      side.expect(b, numbers(channels, [&](auto c) { return double(shift[c]) - 0.5 * g[c]; }),
                  "shift that has moved", 2);
    });
  }
}

// Kept elements are scaled up, so that the mean stays; masks are functions of their key alone.
TYPED_TEST(Images, DropoutDropsItsShareByItsKey) {
  using Real = TypeParam;
  constexpr std::size_t kCount = 100'003;
  const auto x = random_vector<Real>(kCount, 1);
  for (const DropoutKey& key : {DropoutKey{3, 5, 7, 0.3}, DropoutKey{1ULL << 40, 7, 0, 0.25}}) {
    std::vector<std::uint8_t> mask(kCount);
    std::vector<double> ignored(kCount);
    const auto cpu = make_cpu_device<double>(1);
    auto& reference = kernels<BasicImageKernels<double>>(*cpu);
    DropoutKey other = key;
    ++other.a;
    reference.dropout(kCount, other, ignored.data(), ignored.data(), mask.data());
    const auto other_mask = mask;
    reference.dropout(kCount, key, ignored.data(), ignored.data(), mask.data());
    EXPECT_NE(mask, other_mask);
    EXPECT_NEAR(std::accumulate(mask.begin(), mask.end(), 0.0) / kCount, 1 - key.p,
                5 * std::sqrt(key.p * (1 - key.p) / kCount));
    const auto kept = numbers(kCount, [&](auto i) { return mask[i] * double(x[i]) / (1 - key.p); });
    on_devices<Real>([&](auto& side) {
      auto& images = kernels<BasicImageKernels<Real>>(side.device);
      const auto X = side.put(x);
      auto Y = side.room(kCount);
      Bytes found(side, kCount);
      images.dropout(kCount, key, X.data(), Y.data(), found.data());
      side.expect(Y, kept, "Y");
      EXPECT_TRUE(found.get() == mask) << "the mask is that of the key";
      expect_gradient(side, kept, 1, [&](Real beta, Real* dX) {  // goes where the value went
        images.dropout_gradient(kCount, key.p, found.data(), X.data(), beta, dX);
      });
    });
  }
}

TYPED_TEST(Images, RowsAreAddedAtTheirStrides) {
  using Real = TypeParam;
  const auto x = random_vector<Real>(4 * 7, 1), y = random_vector<Real>(4 * 9, 2);
  on_devices<Real>([&](auto& side) {
    auto& images = kernels<BasicImageKernels<Real>>(side.device);
    const auto X = side.put(x);
    for (const std::size_t stride : {7UL, 0UL}) {  // 0: the same row again and again
      for (const std::size_t rows : {0UL, 4UL}) {
        for (const Real beta : {Real(1), Real(0)}) {
          auto Y = side.put(y);
          images.add_rows(rows, 3, {X.data() + 2, stride}, beta, {Y.data() + 5, 9});
          side.expect(Y,
                      numbers(y.size(),
                              [&](auto i) {
                                const std::size_t row = i / 9, column = i % 9;
                                if (row >= rows || column < 5 || column >= 8) return double(y[i]);
                                return double(beta) * double(y[i]) +
                                       double(x[row * stride + column - 3]);
                              }),
                      "Y");
        }
      }
    }
  });
}

TYPED_TEST(Images, SubsamplesTakeEveryThirdPixelAndAreTransposed) {
  using Real = TypeParam;
  constexpr std::size_t n = 2, in = 3, height = 7, width = 5, stride = 3;
  for (const std::size_t out : {2UL, 5UL}) {
    const auto x = random_vector<Real>(n * in * height * width, 1),
               dy = random_vector<Real>(n * out * 3 * 2, 2);
    std::vector<double> y(dy.size()), dx(x.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t sample = i / (out * 6), c = i / 6 % out, h = i / 2 % 3, w = i % 2;
      if (c >= in) continue;
      const std::size_t from = ((sample * in + c) * height + h * stride) * width + w * stride;
      y[i] = double(x[from]);
      dx[from] = double(dy[i]);
    }
    on_devices<Real>([&](auto& side) {
      auto& images = kernels<BasicImageKernels<Real>>(side.device);
      const auto X = side.put(x), dY = side.put(dy);
      auto Y = side.room(y.size());
      images.subsample(n, in, height, width, out, stride, X.data(), Y.data());
      side.expect_exactly(Y, std::vector<Real>(y.begin(), y.end()), "Y");
      expect_gradient(side, dx, 1, [&](Real beta, Real* dX) {
        images.subsample_gradient(n, in, height, width, out, stride, dY.data(), beta, dX);
      });
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
