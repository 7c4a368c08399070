// The kernel family of networks over images, beside convolutions, products and normalisations:
// pooling, ReLU, dropout, and operations that join maps. Its rules (memory, order, errors, NaN) are
// those of BasicDevice. Free of fmt, because CUDA sources include this.
//
// Maps are [n x channels x height x width]. Kernels that compute a gradient dX take beta: dX = beta
// dX + the gradient; beta = 0 never reads dX. On a CPU the bits do not depend on the number of
// cores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/kernel_family.hpp"

namespace hetsgd {

// Sizes of one sample, and the windows of a pooling: maxima or averages.
struct PoolShape {
  std::size_t channels = 1, in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  std::size_t kernel_height = 1, kernel_width = 1, stride = 1;
  std::size_t padding_height = 0, padding_width = 0;
  bool maximum = true;
  bool count_padding = false;  // the average divides by the kernel's size at the border, too

  std::size_t inputs() const { return channels * in_height * in_width; }
  std::size_t outputs() const { return channels * out_height * out_width; }
};

// Key of the mask of a dropout: element i of a batch is dropped if word i % 4 of the Philox block
// (seed; dropout, a, b, i / 4) is below p 2^32.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t a = 0, b = 0;
  double p = 0.5;
};

// Rows of `width` elements that lie `stride` apart.
template <class Pointer>
struct StridedRows {
  Pointer first;
  std::size_t stride;
};

template <class Real>
class BasicImageKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "image kernels";

  // index [n x outputs], which may be null: the place of each maximum in its window, row by row
  // (windows of at most 256 places). The first one wins a tie; NaN is larger than all others.
  virtual void pool(const PoolShape& shape, std::size_t n, const Real* X, Real* Y,
                    std::uint8_t* index) = 0;
  // A maximum is at the place in `index`, or, if that is null, at the first place of X equal to Y.
  // Averages read neither X, Y nor index.
  virtual void pool_gradient(const PoolShape& shape, std::size_t n, const Real* X, const Real* Y,
                             const std::uint8_t* index, const Real* dY, Real beta, Real* dX) = 0;

  // Y = max(X, 0); NaN stays.
  virtual void relu(std::size_t count, const Real* X, Real* Y) = 0;
  // dX = beta dX + dY where Y > 0. dX may be dY.
  virtual void relu_gradient(std::size_t count, const Real* Y, const Real* dY, Real beta,
                             Real* dX) = 0;

  // mask [count] <- 0 where dropped, else 1; Y = mask X / (1 - p).
  virtual void dropout(std::size_t count, const DropoutKey& key, const Real* X, Real* Y,
                       std::uint8_t* mask) = 0;
  virtual void dropout_gradient(std::size_t count, double p, const std::uint8_t* mask,
                                const Real* dY, Real beta, Real* dX) = 0;

  // to <- beta to + from, row by row.
  virtual void add_rows(std::size_t rows, std::size_t width, StridedRows<const Real*> from,
                        Real beta, StridedRows<Real*> to) = 0;

  // Y [channels' x ceil(height / stride) x ...] <- every stride-th pixel. Additional channels are
  // zero.
  virtual void subsample(std::size_t n, std::size_t in_channels, std::size_t height,
                         std::size_t width, std::size_t out_channels, std::size_t stride,
                         const Real* X, Real* Y) = 0;
  virtual void subsample_gradient(std::size_t n, std::size_t in_channels, std::size_t height,
                                  std::size_t width, std::size_t out_channels, std::size_t stride,
                                  const Real* dY, Real beta, Real* dX) = 0;
};

}  // namespace hetsgd
