// Normalisations by neighbouring channels and by the batch, on the CPU. Sums over a batch are in
// double, channel by channel, in the order of samples and pixels.
#include <algorithm>
#include <cmath>
#include <vector>

#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/normalisation_kernels.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kPixels = 256;  // pixels that are treated together

// The channels around c: `size` of them, unless cut at the ends.
Range channels_around(std::size_t c, std::size_t size, std::size_t channels) {
  const std::size_t below = (size - 1) / 2, above = size / 2;
  return {c < below ? 0 : c - below, std::min(channels, c + above + 1)};
}

// sum[p] <- the sum of f(channel, p) over `around`.
template <class Real, class F>
HETSGD_INLINE void add_channels(Range around, std::size_t count, Real* sum, F&& f) {
  std::fill_n(sum, count, Real(0));
  for (std::size_t c = around.begin; c < around.end; ++c) {
    for (std::size_t p = 0; p < count; ++p) sum[p] += f(c, p);
  }
}

// Four sums side by side, to hide the latency of additions.
template <class F>
HETSGD_INLINE double sum_of(std::size_t count, F&& f) {
  double sum[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sum[j] += f(i + j);
  }
  for (; i < count; ++i) sum[0] += f(i);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// dx = beta dx + law(x, dy).
template <class Real, class Law>
void put_gradient(std::size_t count, const Real* x, const Real* dy, const Law law, Real beta,
                  Real* dx) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const Real d = law(x[i], dy[i]);
    dx[i] = beta == Real(0) ? d : beta * dx[i] + d;
  }
}

template <class Real>
class CpuNormalisationKernels final : public BasicNormalisationKernels<Real> {
 public:
  explicit CpuNormalisationKernels(const Cores& cores) : cores_(cores) {}

  void response_normalisation(const ResponseNormalisation<Real>& law, std::size_t n,
                              std::size_t channels, std::size_t pixels, const Real* X,
                              Real* Y) override {
    const Real weight = law.alpha / static_cast<Real>(law.size);
    cores_.split(n, 1, kWorthACore / 16 / (channels * pixels) + 1, [&](Range samples) {
      Real sum[kPixels];
      for (std::size_t i = samples.begin; i < samples.end; ++i) {
        const Real* const x = X + i * channels * pixels;
        Real* const y = Y + i * channels * pixels;
        for (std::size_t p0 = 0; p0 < pixels; p0 += kPixels) {
          const std::size_t count = std::min(kPixels, pixels - p0);
          for (std::size_t c = 0; c < channels; ++c) {
            add_channels(channels_around(c, law.size, channels), count, sum,
                         [&](std::size_t other, std::size_t p) {
                           const Real value = x[other * pixels + p0 + p];
                           return value * value;
                         });
            for (std::size_t p = 0; p < count; ++p) {
              const std::size_t at = c * pixels + p0 + p;
              y[at] = x[at] * std::pow(law.k + weight * sum[p], -law.beta);
            }
          }
        }
      }
    });
  }

  // With s_c of the forward pass, dx_c = s_c^-beta dy_c - 2 beta weight x_c sum of dy_c' y_c' /
  // s_c' over the channels c' whose sum contains x_c.
  void response_normalisation_gradient(const ResponseNormalisation<Real>& law, std::size_t n,
                                       std::size_t channels, std::size_t pixels, const Real* X,
                                       const Real* Y, const Real* dY, Real beta,
                                       Real* dX) override {
    const Real weight = law.alpha / static_cast<Real>(law.size);
    // An even window leans to one side, its mirror to the other.
    const std::size_t mirrored = law.size % 2;
    cores_.split(n, 1, kWorthACore / 16 / (channels * pixels) + 1, [&](Range samples) {
      std::vector<Real> s(channels * kPixels), ratio(channels * kPixels);
      Real sum[kPixels];
      for (std::size_t i = samples.begin; i < samples.end; ++i) {
        const std::size_t sample = i * channels * pixels;
        for (std::size_t p0 = 0; p0 < pixels; p0 += kPixels) {
          const std::size_t count = std::min(kPixels, pixels - p0);
          const auto at = [&](std::size_t c, std::size_t p) {
            return sample + c * pixels + p0 + p;
          };
          for (std::size_t c = 0; c < channels; ++c) {
            add_channels(channels_around(c, law.size, channels), count, sum,
                         [&](std::size_t o, std::size_t p) { return X[at(o, p)] * X[at(o, p)]; });
            for (std::size_t p = 0; p < count; ++p) {
              s[c * kPixels + p] = law.k + weight * sum[p];
              ratio[c * kPixels + p] = dY[at(c, p)] * Y[at(c, p)] / s[c * kPixels + p];
            }
          }
          for (std::size_t c = 0; c < channels; ++c) {
            Range around = channels_around(c, law.size, channels);
            if (mirrored == 0) {
              around = {c < law.size / 2 ? 0 : c - law.size / 2,
                        std::min(channels, c + (law.size - 1) / 2 + 1)};
            }
            add_channels(around, count, sum,
                         [&](std::size_t o, std::size_t p) { return ratio[o * kPixels + p]; });
            for (std::size_t p = 0; p < count; ++p) {
              const Real direct = dY[at(c, p)] * std::pow(s[c * kPixels + p], -law.beta);
              const Real d = direct - 2 * law.beta * weight * X[at(c, p)] * sum[p];
              Real& to = dX[at(c, p)];
              to = beta == Real(0) ? d : beta * to + d;
            }
          }
        }
      }
    });
  }

  void channel_statistics(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                          Real* statistics) override {
    const auto count = static_cast<double>(n * pixels);
    cores_.split(channels, 1, kWorthACore / (n * pixels) + 1, [&](Range range) {
      for (std::size_t c = range.begin; c < range.end; ++c) {
        const auto add = [&](auto&& f) {
          double sum = 0;
          for (std::size_t i = 0; i < n; ++i) {
            const Real* const x = X + (i * channels + c) * pixels;
            sum += sum_of(pixels, [&](std::size_t p) { return f(static_cast<double>(x[p])); });
          }
          return sum / count;
        };
        const double mean = add([](double x) { return x; });
        const double variance = add([&](double x) { return (x - mean) * (x - mean); });
        statistics[c] = static_cast<Real>(mean);
        statistics[channels + c] = static_cast<Real>(variance);
      }
    });
  }

  void normalise(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                 const Real* statistics, Real epsilon, const Real* scale, const Real* shift,
                 Real* Y) override {
    cores_.split(n * channels, 1, kWorthACore / pixels + 1, [&](Range maps) {
      for (std::size_t map = maps.begin; map < maps.end; ++map) {
        const std::size_t c = map % channels;
        const Real factor = scale[c] / std::sqrt(statistics[channels + c] + epsilon);
        const Real offset = shift[c] - factor * statistics[c];
        const Real* const x = X + map * pixels;
        Real* const y = Y + map * pixels;
        for (std::size_t p = 0; p < pixels; ++p) y[p] = factor * x[p] + offset;
      }
    });
  }

  // With xhat = (x - mean) r, r = 1 / sqrt(variance + epsilon), N = n pixels:
  //   g = sum dy,  G = sum dy xhat,  dx = scale r (dy - g / N - xhat G / N)
  void normalise_gradient(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                          const Real* statistics, Real epsilon, const Real* scale, const Real* dY,
                          Real beta, Real* dX, Real alpha, Real parameter_beta, Real* G,
                          Real* g) override {
    const auto count = static_cast<double>(n * pixels);
    cores_.split(channels, 1, kWorthACore / (n * pixels) + 1, [&](Range range) {
      for (std::size_t c = range.begin; c < range.end; ++c) {
        const auto mean = static_cast<double>(statistics[c]);
        const double r = 1 / std::sqrt(static_cast<double>(statistics[channels + c]) +
                                       static_cast<double>(epsilon));
        double sum = 0, product = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const Real* const x = X + (i * channels + c) * pixels;
          const Real* const dy = dY + (i * channels + c) * pixels;
          sum += sum_of(pixels, [&](std::size_t p) { return static_cast<double>(dy[p]); });
          product += sum_of(pixels, [&](std::size_t p) {
            return static_cast<double>(dy[p]) * (static_cast<double>(x[p]) - mean);
          });
        }
        product *= r;
        if (dX) {
          const double factor = static_cast<double>(scale[c]) * r;
          const auto direct = static_cast<Real>(factor);
          const auto slope = static_cast<Real>(-factor * r * product / count);
          const auto offset = static_cast<Real>(-factor * sum / count);
          const auto centre = static_cast<Real>(mean);
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t at = (i * channels + c) * pixels;
            const auto law = [=](Real x, Real dy) {
              return direct * dy + slope * (x - centre) + offset;
            };
            put_gradient(pixels, X + at, dY + at, law, beta, dX + at);
          }
        }
        const auto put = [&](double gradient, Real& to) {
          const Real step = alpha * static_cast<Real>(gradient);
          to = parameter_beta == Real(0) ? step : parameter_beta * to + step;
        };
        put(product, G[c]);
        put(sum, g[c]);
      }
    });
  }

 private:
  const Cores& cores_;
};

const RegisterKernels<Backend, BasicNormalisationKernels, CpuNormalisationKernels>
    normalisation_kernels;

}  // namespace

}  // namespace hetsgd::cpu
