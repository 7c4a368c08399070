// Launchers of the kernels between maps of images and the factors of products (convolution.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "linalg/convolution_kernels.hpp"
#include "linalg/host_device.hpp"

namespace hetsgd::cuda {

// One group of channels and filters, of some samples.
struct GroupShape {
  ConvolutionShape s;
  std::size_t group, samples;
  HETSGD_HOST_DEVICE std::size_t channels() const { return s.in_channels / s.groups; }
  HETSGD_HOST_DEVICE std::size_t filters() const { return s.out_channels / s.groups; }
  HETSGD_HOST_DEVICE std::size_t pixels() const { return s.out_height * s.out_width; }
  HETSGD_HOST_DEVICE std::size_t columns() const { return samples * pixels(); }
  HETSGD_HOST_DEVICE std::size_t depth() const {
    return channels() * s.kernel_height * s.kernel_width;
  }
  // Where output q of filter o, and channel c of a sample, lie in their maps.
  HETSGD_HOST_DEVICE std::size_t output_at(std::size_t o, std::size_t q) const {
    const auto at = static_cast<unsigned>(q), each = static_cast<unsigned>(pixels());
    return (at / each * s.out_channels + group * filters() + o) * each + at % each;
  }
  HETSGD_HOST_DEVICE std::size_t map_at(std::size_t sample, std::size_t c) const {
    return (sample * s.in_channels + group * channels() + c) * s.in_height * s.in_width;
  }
};

// C [depth x columns] <- the windows of X: element (k, q) is what weight k of a filter meets at
// output q, 0 around the maps.
template <class Real>
void copy_windows(cudaStream_t stream, const GroupShape& g, const Real* X, Real* windows);
// dX <- beta dX + for each input the sum of the elements of C that it stands in, in the order of
// weights.
template <class Real>
void add_windows(cudaStream_t stream, const GroupShape& g, const Real* windows, Real beta,
                 Real* dX);
// The maps of Y <- S [filters x columns] + bias, by filter; bias may be null. And back.
template <class Real>
void sums_to_maps(cudaStream_t stream, const GroupShape& g, const Real* sums, const Real* bias,
                  Real* Y);
template <class Real>
void maps_to_sums(cudaStream_t stream, const GroupShape& g, const Real* dY, Real* sums);
// to[row] <- beta to[row] + alpha (the sum of row `row` of x [rows x columns]), added in double in a
// fixed order.
template <class Real>
void add_up_rows(cudaStream_t stream, std::size_t rows, std::size_t columns, const Real* x,
                 Real alpha, Real beta, Real* to);

}  // namespace hetsgd::cuda
