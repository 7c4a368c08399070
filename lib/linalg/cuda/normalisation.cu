// Normalisations by neighbouring channels and by the batch, on a GPU. Sums over a batch are in
// double. A block of threads adds up a channel: each thread adds every kThreads-th element, then
// the block adds its threads' sums.
#include <cmath>

#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/resources.hpp"
#include "linalg/normalisation_kernels.hpp"

namespace hetsgd::cuda {

namespace {

// Rows of the kernels below are maps: sample * channels + channel.
struct Maps {
  std::size_t n, channels, pixels;
  __device__ std::size_t numbers() const { return n * pixels; }  // of a channel
  __device__ std::size_t at(std::size_t channel, std::size_t i) const {
    const auto number = static_cast<unsigned>(i), each = static_cast<unsigned>(pixels);
    return (number / each * channels + channel) * pixels + number % each;
  }
};

// The sum of f(index of the pixel in a channel) over a map's channel, the `below` channels before
// it and the `above` channels after it.
template <class Real, class F>
__device__ Real sum_around(const Maps& maps, std::size_t map, std::size_t pixel, std::size_t below,
                           std::size_t above, F f) {
  const std::size_t c = map % maps.channels, first = map - c;
  const std::size_t begin = c < below ? 0 : c - below, end = smaller(maps.channels, c + above + 1);
  Real sum = 0;
  for (std::size_t other = begin; other < end; ++other)
    sum += f((first + other) * maps.pixels + pixel);
  return sum;
}

template <class Real>
struct ResponseForward {
  Maps maps;
  ResponseNormalisation<Real> law;
  const Real* X;
  Real* Y;
  __device__ Real scale(std::size_t map, std::size_t pixel) const {
    const Real* const x = X;
    return law.k + law.alpha / static_cast<Real>(law.size) *
                       sum_around<Real>(maps, map, pixel, (law.size - 1) / 2, law.size / 2,
                                        [x](std::size_t at) { return x[at] * x[at]; });
  }
  __device__ void operator()(std::size_t map, std::size_t pixel) const {
    const std::size_t at = map * maps.pixels + pixel;
    Y[at] = X[at] * std::pow(scale(map, pixel), -law.beta);
  }
};

// s and dY Y / s of each element.
template <class Real>
struct ResponseRatios {
  ResponseForward<Real> forward;
  const Real* Y;
  const Real* dY;
  Real* s;
  Real* ratio;
  __device__ void operator()(std::size_t map, std::size_t pixel) const {
    const std::size_t at = map * forward.maps.pixels + pixel;
    s[at] = forward.scale(map, pixel);
    ratio[at] = dY[at] * Y[at] / s[at];
  }
};

// dx_c = s_c^-beta dy_c - 2 beta alpha / size x_c sum of ratios over the channels c' whose sum
// contains x_c: the mirrored window.
template <class Real>
struct ResponseBack {
  Maps maps;
  ResponseNormalisation<Real> law;
  const Real* X;
  const Real* dY;
  const Real* s;
  const Real* ratio;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t map, std::size_t pixel) const {
    const std::size_t at = map * maps.pixels + pixel;
    const Real* const r = ratio;
    const Real sum = sum_around<Real>(maps, map, pixel, law.size / 2, (law.size - 1) / 2,
                                      [r](std::size_t other) { return r[other]; });
    const Real weight = law.alpha / static_cast<Real>(law.size);
    const Real d = dY[at] * std::pow(s[at], -law.beta) - 2 * law.beta * weight * X[at] * sum;
    dX[at] = beta == Real(0) ? d : beta * dX[at] + d;
  }
};

// The sum of f(i) over the elements of a channel, on all threads of the block.
template <class F>
__device__ double sum_channel(std::size_t count, double* scratch, F f) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) sum += f(i);
  return reduce_block(sum, Sum(), scratch);
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    channel_statistics_kernel(Maps maps, const Real* __restrict__ X,
                              Real* __restrict__ statistics) {
  __shared__ double scratch[kWarps];
  const auto count = static_cast<double>(maps.numbers());
  for (std::size_t c = blockIdx.x; c < maps.channels; c += gridDim.x) {
    const double mean =
        sum_channel(maps.numbers(), scratch,
                    [&](std::size_t i) { return static_cast<double>(X[maps.at(c, i)]); }) /
        count;
    const double variance = sum_channel(maps.numbers(), scratch,
                                        [&](std::size_t i) {
                                          const double d =
                                              static_cast<double>(X[maps.at(c, i)]) - mean;
                                          return d * d;
                                        }) /
                            count;
    if (threadIdx.x == 0) {
      statistics[c] = static_cast<Real>(mean);
      statistics[maps.channels + c] = static_cast<Real>(variance);
    }
  }
}

template <class Real>
struct Normalise {
  Maps maps;
  const Real* X;
  const Real* statistics;
  Real epsilon;
  const Real* scale;
  const Real* shift;
  Real* Y;
  __device__ void operator()(std::size_t map, std::size_t pixel) const {
    const std::size_t c = map % maps.channels, at = map * maps.pixels + pixel;
    const Real factor = scale[c] / std::sqrt(statistics[maps.channels + c] + epsilon);
    Y[at] = factor * X[at] + (shift[c] - factor * statistics[c]);
  }
};

// dX = direct dY + slope (X - centre) + offset, by channel.
template <class Real>
struct NormaliseLine {
  Real direct, slope, centre, offset;
};

template <class Real>
struct NormaliseBack {
  Maps maps;
  const NormaliseLine<Real>* lines;  // [channels]
  const Real* X;
  const Real* dY;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t map, std::size_t pixel) const {
    const std::size_t at = map * maps.pixels + pixel;
    const NormaliseLine<Real> line = lines[map % maps.channels];
    const Real d = line.direct * dY[at] + line.slope * (X[at] - line.centre) + line.offset;
    dX[at] = beta == Real(0) ? d : beta * dX[at] + d;
  }
};

// Where the gradients of scale and shift go. G may alias scale.
template <class Real>
struct NormaliseTarget {
  Real alpha, beta;
  Real* G;
  Real* g;
  __device__ void put(double gradient, Real& to) const {
    const Real step = alpha * static_cast<Real>(gradient);
    to = beta == Real(0) ? step : beta * to + step;
  }
};

// With xhat = (x - mean) r, r = 1 / sqrt(variance + epsilon), N elements of a channel:
//   g = sum dy,  G = sum dy xhat,  dx = scale r (dy - g / N - xhat G / N)
template <class Real>
__global__ void __launch_bounds__(kThreads)
    normalise_sums_kernel(Maps maps, const Real* X, const Real* statistics, Real epsilon,
                          const Real* scale, const Real* dY, NormaliseLine<Real>* lines,
                          NormaliseTarget<Real> target) {
  __shared__ double scratch[kWarps];
  const auto count = static_cast<double>(maps.numbers());
  for (std::size_t c = blockIdx.x; c < maps.channels; c += gridDim.x) {
    const auto mean = static_cast<double>(statistics[c]);
    const double r = 1 / std::sqrt(static_cast<double>(statistics[maps.channels + c]) +
                                   static_cast<double>(epsilon));
    const double sum = sum_channel(maps.numbers(), scratch, [&](std::size_t i) {
      return static_cast<double>(dY[maps.at(c, i)]);
    });
    const double product =
        r * sum_channel(maps.numbers(), scratch, [&](std::size_t i) {
          const std::size_t at = maps.at(c, i);
          return static_cast<double>(dY[at]) * (static_cast<double>(X[at]) - mean);
        });
    if (threadIdx.x == 0) {
      const double factor = static_cast<double>(scale[c]) * r;
      lines[c] = {static_cast<Real>(factor), static_cast<Real>(-factor * r * product / count),
                  static_cast<Real>(mean), static_cast<Real>(-factor * sum / count)};
      target.put(product, target.G[c]);
      target.put(sum, target.g[c]);
    }
  }
}

template <class Real>
class CudaNormalisationKernels final : public BasicNormalisationKernels<Real> {
 public:
  explicit CudaNormalisationKernels(Backend& backend)
      : backend_(backend), ratios_(backend.stream), lines_(backend.stream) {}

  void response_normalisation(const ResponseNormalisation<Real>& law, std::size_t n,
                              std::size_t channels, std::size_t pixels, const Real* X,
                              Real* Y) override {
    launch_rowwise(backend_.use(), n * channels, pixels,
                   ResponseForward<Real>{{n, channels, pixels}, law, X, Y},
                   "kernel response_normalisation");
  }
  void response_normalisation_gradient(const ResponseNormalisation<Real>& law, std::size_t n,
                                       std::size_t channels, std::size_t pixels, const Real* X,
                                       const Real* Y, const Real* dY, Real beta,
                                       Real* dX) override {
    const cudaStream_t stream = backend_.use();
    const Maps maps{n, channels, pixels};
    const std::size_t numbers = n * channels * pixels;
    Real* const s = ratios_.reserve<Real>(2 * numbers, "a response normalisation");
    Real* const ratio = s + numbers;
    const ResponseForward<Real> forward{maps, law, X, nullptr};
    launch_rowwise(stream, n * channels, pixels, ResponseRatios<Real>{forward, Y, dY, s, ratio},
                   "kernel response_ratios");
    launch_rowwise(stream, n * channels, pixels,
                   ResponseBack<Real>{maps, law, X, dY, s, ratio, beta, dX},
                   "kernel response_normalisation_gradient");
  }

  void channel_statistics(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                          Real* statistics) override {
    launch(backend_.use(), channels, 1, "kernel channel_statistics",
           channel_statistics_kernel<Real>, Maps{n, channels, pixels}, X, statistics);
  }
  void normalise(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                 const Real* statistics, Real epsilon, const Real* scale, const Real* shift,
                 Real* Y) override {
    launch_rowwise(backend_.use(), n * channels, pixels,
                   Normalise<Real>{{n, channels, pixels}, X, statistics, epsilon, scale, shift, Y},
                   "kernel normalise");
  }
  void normalise_gradient(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                          const Real* statistics, Real epsilon, const Real* scale, const Real* dY,
                          Real beta, Real* dX, Real alpha, Real parameter_beta, Real* G,
                          Real* g) override {
    const cudaStream_t stream = backend_.use();
    const Maps maps{n, channels, pixels};
    auto* const lines = lines_.reserve<NormaliseLine<Real>>(channels, "the sums of channels");
    const NormaliseTarget<Real> target{alpha, parameter_beta, G, g};
    launch(stream, channels, 1, "kernel normalise_sums", normalise_sums_kernel<Real>, maps, X,
           statistics, epsilon, scale, dY, lines, target);
    if (dX == nullptr) return;
    launch_rowwise(stream, n * channels, pixels, NormaliseBack<Real>{maps, lines, X, dY, beta, dX},
                   "kernel normalise_gradient");
  }

 private:
  Backend& backend_;
  DeviceMemory ratios_, lines_;
};

const RegisterKernels<Backend, BasicNormalisationKernels, CudaNormalisationKernels>
    normalisation_kernels;

}  // namespace

}  // namespace hetsgd::cuda
