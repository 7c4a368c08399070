// Pooling, normalisations, dropout and joins: by their definitions, and gradients as transposes
// (<dY, J v> = <J^T dY, v>) by central differences of the forward kernel in double.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "linalg/image_kernels.hpp"
#include "linalg/normalisation_kernels.hpp"
#include "linalg/reference.hpp"
#include "support/image_shapes.hpp"

namespace hetsgd::test {
namespace {

// dX = sum over outputs of dY times the derivative of the output by X, numerically.
std::vector<double> numeric_gradient(
    const std::vector<double>& X, const std::vector<double>& dY,
    const std::function<std::vector<double>(const std::vector<double>&)>& forward) {
  std::vector<double> dX(X.size());
  for (std::size_t i = 0; i < X.size(); ++i) {
    constexpr double kStep = 1e-6;
    std::vector<double> up = X, down = X;
    up[i] += kStep;
    down[i] -= kStep;
    const std::vector<double> high = forward(up), low = forward(down);
    for (std::size_t j = 0; j < dY.size(); ++j) dX[i] += dY[j] * (high[j] - low[j]) / (2 * kStep);
  }
  return dX;
}

// Two calls, with beta 0 over NaN and with beta 1.
template <class Call>
void expect_gradient(const std::vector<double>& expected, double tolerance, const Call& call) {
  std::vector<double> dX(expected.size(), std::numeric_limits<double>::quiet_NaN());
  call(0.0, dX.data());
  expect_close(dX, expected, tolerance, "dX");
  const auto before = random_vector<double>(expected.size(), 9);
  std::vector<double> sum = expected;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
  dX = before;
  call(1.0, dX.data());
  expect_close(dX, sum, tolerance, "dX added");
}

TEST(Pool, IsItsDefinition) {
  const std::size_t n = 3;
  for (const PoolShape& s : pool_shapes()) {
    const auto X = random_vector<double>(n * s.inputs(), 1);
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<double>(cores);
      auto& images = kernels<BasicImageKernels<double>>(*device);
      std::vector<double> Y(n * s.outputs());
      std::vector<std::uint8_t> index(Y.size());
      images.pool(s, n, X.data(), Y.data(), s.maximum ? index.data() : nullptr);
      for (std::size_t y = 0; y < Y.size(); ++y) {
        const std::size_t map = y / (s.out_height * s.out_width),
                          h = y / s.out_width % s.out_height, w = y % s.out_width;
        double best = -1e9, sum = 0;
        std::size_t cells = 0, place = 0;
        for (std::size_t i = 0; i < s.kernel_height; ++i) {
          for (std::size_t j = 0; j < s.kernel_width; ++j) {
            const std::size_t row = h * s.stride + i - s.padding_height,
                              column = w * s.stride + j - s.padding_width;
            if (row >= s.in_height || column >= s.in_width) continue;  // below zero, too
            const double x = X[(map * s.in_height + row) * s.in_width + column];
            ++cells;
            sum += x;
            if (x > best) place = i * s.kernel_width + j;
            best = std::max(best, x);
          }
        }
        if (s.count_padding) cells = s.kernel_height * s.kernel_width;
        ASSERT_NEAR(Y[y], s.maximum ? best : sum / static_cast<double>(cells), 1e-12);
        if (s.maximum) {
          ASSERT_EQ(index[y], place);
        }
      }
    }
  }
}

TEST(Pool, GradientIsItsTranspose) {
  const std::size_t n = 2;
  for (const PoolShape& s : pool_shapes()) {
    const auto X = random_vector<double>(n * s.inputs(), 1),
               dY = random_vector<double>(n * s.outputs(), 2);
    const auto device = make_cpu_device<double>(1);
    auto& images = kernels<BasicImageKernels<double>>(*device);
    const auto forward = [&](const std::vector<double>& at) {
      std::vector<double> Y(n * s.outputs());
      images.pool(s, n, at.data(), Y.data(), nullptr);
      return Y;
    };
    const auto Y = forward(X);
    const auto expected = numeric_gradient(X, dY, forward);
    expect_gradient(expected, 1e-7, [&](double beta, double* dX) {
      images.pool_gradient(s, n, X.data(), Y.data(), nullptr, dY.data(), beta, dX);
    });
    if (!s.maximum) continue;
    std::vector<double> again(Y.size());
    std::vector<std::uint8_t> index(Y.size());
    images.pool(s, n, X.data(), again.data(), index.data());
    expect_gradient(expected, 1e-7, [&](double beta, double* dX) {
      images.pool_gradient(s, n, nullptr, nullptr, index.data(), dY.data(), beta, dX);
    });
  }
}

TEST(Pool, LetsNaNThroughAndTakesTheFirstOfEqualOnes) {
  const auto device = make_cpu_device<float>(1);
  auto& images = kernels<BasicImageKernels<float>>(*device);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> X{1, nan, 5, 5, 2, 9, 5, 5};
  for (const std::size_t kernel : {2UL}) {
    const PoolShape s = pool_of(1, 2, 4, kernel, 2, 0, true);
    std::vector<float> Y(2), dX(8);
    std::vector<std::uint8_t> index(2);
    images.pool(s, 1, X.data(), Y.data(), index.data());
    EXPECT_TRUE(std::isnan(Y[0]));
    EXPECT_EQ(Y[1], 5);
    EXPECT_EQ(index, (std::vector<std::uint8_t>{1, 0}));
    const std::vector<float> dY{3, 4};
    images.pool_gradient(s, 1, X.data(), Y.data(), nullptr, dY.data(), 0, dX.data());
    EXPECT_EQ(dX, (std::vector<float>{0, 3, 4, 0, 0, 0, 0, 0}));
  }
}

TEST(ResponseNormalisation, IsItsDefinitionAndGradientItsTranspose) {
  const std::size_t n = 2, channels = 7, pixels = 6;
  for (const std::size_t size : {5UL, 4UL, 1UL}) {
    const ResponseNormalisation<double> law{.size = size, .alpha = 0.7, .beta = 0.75, .k = 1.5};
    const auto X = random_vector<double>(n * channels * pixels, 1),
               dY = random_vector<double>(X.size(), 2);
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<double>(cores);
      auto& kernel = kernels<BasicNormalisationKernels<double>>(*device);
      const auto forward = [&](const std::vector<double>& at) {
        std::vector<double> Y(at.size());
        kernel.response_normalisation(law, n, channels, pixels, at.data(), Y.data());
        return Y;
      };
      const auto Y = forward(X);
      for (std::size_t at = 0; at < X.size(); ++at) {
        const std::size_t c = at / pixels % channels;
        double sum = 0;
        for (std::size_t other = 0; other < channels; ++other) {
          if (other + (size - 1) / 2 < c || other > c + size / 2) continue;
          const double x = X[at + other * pixels - c * pixels];
          sum += x * x;
        }
        ASSERT_NEAR(Y[at], X[at] / std::pow(1.5 + 0.7 / static_cast<double>(size) * sum, 0.75),
                    1e-12);
      }
      expect_gradient(numeric_gradient(X, dY, forward), 1e-7, [&](double beta, double* dX) {
        kernel.response_normalisation_gradient(law, n, channels, pixels, X.data(), Y.data(),
                                               dY.data(), beta, dX);
      });
      std::vector<double> in_place = dY;
      kernel.response_normalisation_gradient(law, n, channels, pixels, X.data(), Y.data(),
                                             in_place.data(), 0, in_place.data());
      expect_close(in_place, numeric_gradient(X, dY, forward), 1e-7, "in place");
    }
  }
}

// Each channel leaves with mean `shift` and deviation `scale`; gradients by X, scale and shift.
TEST(BatchNormalisation, HasTheMeanAndDeviationThatItIsGivenAndItsTranspose) {
  const std::size_t n = 3, channels = 4, pixels = 5;
  const double epsilon = 1e-3;
  const auto X = random_vector<double>(n * channels * pixels, 1),
             scale = random_vector<double>(channels, 2, 0.5, 2),
             shift = random_vector<double>(channels, 3), dY = random_vector<double>(X.size(), 4);
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<double>(cores);
    auto& kernel = kernels<BasicNormalisationKernels<double>>(*device);
    std::vector<double> statistics(2 * channels);
    const auto with = [&](const std::vector<double>& x, const std::vector<double>& a,
                          const std::vector<double>& b) {
      std::vector<double> Y(x.size());
      kernel.channel_statistics(n, channels, pixels, x.data(), statistics.data());
      kernel.normalise(n, channels, pixels, x.data(), statistics.data(), epsilon, a.data(),
                       b.data(), Y.data());
      return Y;
    };
    const auto Y = with(X, scale, shift);
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t p = 0; p < pixels; ++p) {
          const double y = Y[(i * channels + c) * pixels + p];
          sum += y;
          squares += (y - shift[c]) * (y - shift[c]);
        }
      }
      const double count = n * pixels, variance = statistics[channels + c];
      EXPECT_NEAR(sum / count, shift[c], 1e-12);
      EXPECT_NEAR(squares / count, scale[c] * scale[c] * variance / (variance + epsilon), 1e-12);
    }
    const auto by_x = [&](const std::vector<double>& x) { return with(x, scale, shift); };
    const auto by_scale = [&](const std::vector<double>& a) { return with(X, a, shift); };
    const auto by_shift = [&](const std::vector<double>& b) { return with(X, scale, b); };
    const auto dX = numeric_gradient(X, dY, by_x), G = numeric_gradient(scale, dY, by_scale),
               g = numeric_gradient(shift, dY, by_shift);
    with(X, scale, shift);
    std::vector<double> found_G(channels, NAN), found_g(channels, NAN);
    expect_gradient(dX, 1e-7, [&](double beta, double* to) {
      kernel.normalise_gradient(n, channels, pixels, X.data(), statistics.data(), epsilon,
                                scale.data(), dY.data(), beta, to, 1, 0, found_G.data(),
                                found_g.data());
    });
    expect_close(found_G, G, 1e-7, "G");
    expect_close(found_g, g, 1e-7, "g");
    std::vector<double> moved = scale;
    kernel.normalise_gradient(n, channels, pixels, X.data(), statistics.data(), epsilon,
                              scale.data(), dY.data(), 0, nullptr, -0.5, 1, moved.data(),
                              found_g.data());
    for (std::size_t c = 0; c < channels; ++c) {
      EXPECT_NEAR(moved[c], scale[c] - 0.5 * G[c], 1e-7);
    }
  }
}

TEST(Relu, AndItsGradientInPlace) {
  const auto device = make_cpu_device<float>(1);
  auto& images = kernels<BasicImageKernels<float>>(*device);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> X{-1, 2, 0, nan};
  std::vector<float> Y(4), d{5, 6, 7, 8}, added{1, 1, 1, 1};
  images.relu(4, X.data(), Y.data());
  EXPECT_EQ(std::vector<float>(Y.begin(), Y.end() - 1), (std::vector<float>{0, 2, 0}));
  EXPECT_TRUE(std::isnan(Y[3]));
  images.relu_gradient(4, Y.data(), d.data(), 1, added.data());
  EXPECT_EQ(added, (std::vector<float>{1, 7, 1, 9}));
  images.relu_gradient(4, Y.data(), d.data(), 0, d.data());
  EXPECT_EQ(d, (std::vector<float>{0, 6, 0, 8}));
}

// Passes that several cores share have the bits of one core, and write nothing behind their maps:
// so many small ones that a core's are pooled as one tall map.
TEST(Pool, AndReluHaveTheSameBitsForAnyCores) {
  const PoolShape s = pool_of(5, 6, 4, 2, 2, 0, true);
  const std::size_t n = 301, in = n * s.inputs(), out = n * s.outputs();
  const auto X = random_vector<float>(in, 1), dY = random_vector<float>(out, 2);
  std::vector<std::vector<float>> results;
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<float>(cores);
    auto& images = kernels<BasicImageKernels<float>>(*device);
    std::vector<float> Y(out + 1, 77), dX(in + 1, 77), positive(in), d(in);
    std::vector<std::uint8_t> index(out + 1, 77);
    images.pool(s, n, X.data(), Y.data(), index.data());
    images.pool_gradient(s, n, nullptr, nullptr, index.data(), dY.data(), 0, dX.data());
    EXPECT_EQ(Y.back(), 77);
    EXPECT_EQ(dX.back(), 77);
    EXPECT_EQ(index.back(), 77);
    images.relu(in, X.data(), positive.data());
    images.relu_gradient(in, positive.data(), dX.data(), 0, d.data());
    for (auto* result : {&Y, &dX, &positive, &d}) results.push_back(std::move(*result));
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(results[i], results[i + 4]);
}

// What is kept is scaled up, so that the mean stays; masks are functions of their key alone.
TEST(Dropout, DropsItsShareByItsKey) {
  const std::size_t count = 100'003;
  const std::vector<float> X(count, 1.0F);
  const DropoutKey key{.seed = 3, .a = 5, .b = 7, .p = 0.3};
  std::vector<std::vector<float>> outputs;
  std::vector<std::uint8_t> mask(count);
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<float>(cores);
    auto& images = kernels<BasicImageKernels<float>>(*device);
    std::vector<float> Y(count);
    images.dropout(count, key, X.data(), Y.data(), mask.data());
    outputs.push_back(Y);
    DropoutKey other = key;
    other.a = 6;
    images.dropout(count, other, X.data(), Y.data(), mask.data());
    EXPECT_NE(Y, outputs.back());
    images.dropout(count, key, X.data(), Y.data(), mask.data());
    EXPECT_EQ(Y, outputs.back());
    // The gradient goes where the value went.
    std::vector<float> dX(count);
    images.dropout_gradient(count, key.p, mask.data(), X.data(), 0, dX.data());
    EXPECT_EQ(dX, Y);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  const auto kept = static_cast<double>(std::accumulate(mask.begin(), mask.end(), 0));
  EXPECT_NEAR(kept / count, 0.7, 5 * std::sqrt(0.21 / count));
  const auto [low, high] = std::minmax_element(outputs[0].begin(), outputs[0].end());
  EXPECT_EQ(*low, 0);
  EXPECT_FLOAT_EQ(*high, 1 / 0.7F);
}

TEST(Rows, AreAddedAtTheirStrides) {
  const auto device = make_cpu_device<double>(3);
  auto& images = kernels<BasicImageKernels<double>>(*device);
  const auto X = random_vector<double>(4 * 7, 1), Y0 = random_vector<double>(4 * 9, 2);
  auto Y = Y0;
  images.add_rows(4, 3, {X.data() + 2, 7}, 1, {Y.data() + 5, 9});
  for (std::size_t i = 0; i < Y.size(); ++i) {
    const std::size_t row = i / 9, column = i % 9;
    const bool inside = column >= 5 && column < 8;
    EXPECT_EQ(Y[i], Y0[i] + (inside ? X[row * 7 + column - 5 + 2] : 0));
  }
}

TEST(Subsample, TakesEveryThirdPixelAndIsTransposed) {
  const std::size_t n = 2, in = 3, height = 7, width = 5, stride = 3;
  for (const std::size_t out : {2UL, 5UL}) {
    const auto device = make_cpu_device<double>(1);
    auto& images = kernels<BasicImageKernels<double>>(*device);
    const auto X = random_vector<double>(n * in * height * width, 1),
               dY = random_vector<double>(n * out * 3 * 2, 2);
    const auto forward = [&](const std::vector<double>& at) {
      std::vector<double> Y(dY.size());
      images.subsample(n, in, height, width, out, stride, at.data(), Y.data());
      return Y;
    };
    const auto Y = forward(X);
    for (std::size_t i = 0; i < Y.size(); ++i) {
      const std::size_t sample = i / (out * 6), c = i / 6 % out, h = i / 2 % 3, w = i % 2;
      const double expected =
          c < in ? X[((sample * in + c) * height + h * stride) * width + w * stride] : 0;
      EXPECT_EQ(Y[i], expected);
    }
    expect_gradient(numeric_gradient(X, dY, forward), 1e-8, [&](double beta, double* dX) {
      images.subsample_gradient(n, in, height, width, out, stride, dY.data(), beta, dX);
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
