#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/windows.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
struct CopyWindows {
  GroupShape g;
  const Real* X;
  Real* windows;
  __device__ void operator()(std::size_t k, std::size_t q) const {
    const auto weight = static_cast<unsigned>(k), at = static_cast<unsigned>(q);
    const auto kh = static_cast<unsigned>(g.s.kernel_height),
               kw = static_cast<unsigned>(g.s.kernel_width);
    const auto width = static_cast<unsigned>(g.s.out_width),
               pixels = static_cast<unsigned>(g.pixels());
    // Places around the map are beyond its end, also those before its begin.
    const std::size_t h = at % pixels / width * g.s.stride + weight / kw % kh - g.s.padding_height;
    const std::size_t w = at % width * g.s.stride + weight % kw - g.s.padding_width;
    const bool inside = h < g.s.in_height && w < g.s.in_width;
    const std::size_t map = g.map_at(at / pixels, weight / (kw * kh));
    windows[k * g.columns() + q] = inside ? X[map + h * g.s.in_width + w] : Real(0);
  }
};

// Input pixel `at` of channel c of a sample: row sample * channels + c. An output row is one that
// weight row i carries to the pixel's: stride * row + i = h + padding.
template <class Real>
struct AddWindows {
  GroupShape g;
  const Real* windows;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t row, std::size_t at) const {
    const std::size_t sample = row / g.channels(), c = row % g.channels();
    const std::size_t h = at / g.s.in_width + g.s.padding_height,
                      w = at % g.s.in_width + g.s.padding_width;
    Real sum = 0;
    for (std::size_t i = 0; i < g.s.kernel_height; ++i) {
      if (h < i || (h - i) % g.s.stride != 0 || (h - i) / g.s.stride >= g.s.out_height) continue;
      for (std::size_t j = 0; j < g.s.kernel_width; ++j) {
        if (w < j || (w - j) % g.s.stride != 0 || (w - j) / g.s.stride >= g.s.out_width) continue;
        const std::size_t k = (c * g.s.kernel_height + i) * g.s.kernel_width + j;
        const std::size_t q =
            sample * g.pixels() + (h - i) / g.s.stride * g.s.out_width + (w - j) / g.s.stride;
        sum += windows[k * g.columns() + q];
      }
    }
    Real& to = dX[g.map_at(sample, c) + at];
    to = beta == Real(0) ? sum : beta * to + sum;
  }
};

template <class Real>
struct SumsToMaps {
  GroupShape g;
  const Real* sums;
  const Real* bias;
  Real* Y;
  __device__ void operator()(std::size_t o, std::size_t q) const {
    const Real sum = sums[o * g.columns() + q];
    Y[g.output_at(o, q)] = bias != nullptr ? sum + bias[g.group * g.filters() + o] : sum;
  }
};

template <class Real>
struct MapsToSums {
  GroupShape g;
  const Real* dY;
  Real* sums;
  __device__ void operator()(std::size_t o, std::size_t q) const {
    sums[o * g.columns() + q] = dY[g.output_at(o, q)];
  }
};

// to[row] <- beta to[row] + alpha (the sum of the row): a block of threads each.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    add_up_rows_kernel(std::size_t rows, std::size_t columns, const Real* __restrict__ x,
                       Real alpha, Real beta, Real* __restrict__ to) {
  __shared__ double scratch[kWarps];
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    double sum = 0;
    for (std::size_t j = threadIdx.x; j < columns; j += kThreads) {
      sum += static_cast<double>(x[row * columns + j]);
    }
    sum = reduce_block(sum, Sum(), scratch);
    if (threadIdx.x == 0) {
      const Real step = alpha * static_cast<Real>(sum);
      to[row] = beta == Real(0) ? step : beta * to[row] + step;
    }
  }
}

}  // namespace

template <class Real>
void copy_windows(cudaStream_t stream, const GroupShape& g, const Real* X, Real* windows) {
  launch_rowwise(stream, g.depth(), g.columns(), CopyWindows<Real>{g, X, windows},
                 "kernel copy_windows");
}
template <class Real>
void add_windows(cudaStream_t stream, const GroupShape& g, const Real* windows, Real beta,
                 Real* dX) {
  launch_rowwise(stream, g.samples * g.channels(), g.s.in_height * g.s.in_width,
                 AddWindows<Real>{g, windows, beta, dX}, "kernel add_windows");
}
template <class Real>
void sums_to_maps(cudaStream_t stream, const GroupShape& g, const Real* sums, const Real* bias,
                  Real* Y) {
  launch_rowwise(stream, g.filters(), g.columns(), SumsToMaps<Real>{g, sums, bias, Y},
                 "kernel sums_to_maps");
}
template <class Real>
void maps_to_sums(cudaStream_t stream, const GroupShape& g, const Real* dY, Real* sums) {
  launch_rowwise(stream, g.filters(), g.columns(), MapsToSums<Real>{g, dY, sums},
                 "kernel maps_to_sums");
}
template <class Real>
void add_up_rows(cudaStream_t stream, std::size_t rows, std::size_t columns, const Real* x,
                 Real alpha, Real beta, Real* to) {
  if (rows == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(rows, 1));
  add_up_rows_kernel<<<blocks, kThreads, 0, stream>>>(rows, columns, x, alpha, beta, to);
  check_launch("kernel add_up_rows");
}

template void copy_windows<float>(cudaStream_t, const GroupShape&, const float*, float*);
template void add_windows<float>(cudaStream_t, const GroupShape&, const float*, float, float*);
template void sums_to_maps<float>(cudaStream_t, const GroupShape&, const float*, const float*,
                                  float*);
template void maps_to_sums<float>(cudaStream_t, const GroupShape&, const float*, float*);
template void add_up_rows<float>(cudaStream_t, std::size_t, std::size_t, const float*, float, float,
                                 float*);
template void copy_windows<double>(cudaStream_t, const GroupShape&, const double*, double*);
template void add_windows<double>(cudaStream_t, const GroupShape&, const double*, double, double*);
template void sums_to_maps<double>(cudaStream_t, const GroupShape&, const double*, const double*,
                                   double*);
template void maps_to_sums<double>(cudaStream_t, const GroupShape&, const double*, double*);
template void add_up_rows<double>(cudaStream_t, std::size_t, std::size_t, const double*, double,
                                  double, double*);

}  // namespace hetsgd::cuda
