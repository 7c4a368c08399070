// The kernel family of normalisations: by neighbouring channels, and by the statistics of a batch.
// Its rules (memory, order, errors, NaN) are those of BasicDevice. Free of fmt, because CUDA
// sources include this.
//
// Maps are [n x channels x pixels]. Kernels that compute a gradient dX take beta: dX = beta dX +
// the gradient; beta = 0 never reads dX. On a CPU the bits do not depend on the number of cores.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"

namespace hetsgd {

// Krizhevsky and others 2012: y = x / s^beta, s = k + alpha / size * (sum of x^2 over the `size`
// channels around).
template <class Real>
struct ResponseNormalisation {
  std::size_t size = 5;
  Real alpha = Real(1e-4), beta = Real(0.75), k = Real(2);
};

template <class Real>
class BasicNormalisationKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "normalisation kernels";

  virtual void response_normalisation(const ResponseNormalisation<Real>& law, std::size_t n,
                                      std::size_t channels, std::size_t pixels, const Real* X,
                                      Real* Y) = 0;
  // dX may be dY.
  virtual void response_normalisation_gradient(const ResponseNormalisation<Real>& law,
                                               std::size_t n, std::size_t channels,
                                               std::size_t pixels, const Real* X, const Real* Y,
                                               const Real* dY, Real beta, Real* dX) = 0;

  // statistics [2 x channels] <- the mean of each channel over the batch, and its variance (over
  // n pixels, not one less).
  virtual void channel_statistics(std::size_t n, std::size_t channels, std::size_t pixels,
                                  const Real* X, Real* statistics) = 0;
  // Y = scale (X - mean) / sqrt(variance + epsilon) + shift, by channel.
  virtual void normalise(std::size_t n, std::size_t channels, std::size_t pixels, const Real* X,
                         const Real* statistics, Real epsilon, const Real* scale, const Real* shift,
                         Real* Y) = 0;
  // The backward pass of both; dX may be null. G = parameter_beta G + alpha (the gradient by
  // scale), and likewise g for the gradient by shift. parameter_beta = 0 never reads them.
  virtual void normalise_gradient(std::size_t n, std::size_t channels, std::size_t pixels,
                                  const Real* X, const Real* statistics, Real epsilon,
                                  const Real* scale, const Real* dY, Real beta, Real* dX,
                                  Real alpha, Real parameter_beta, Real* G, Real* g) = 0;
};

}  // namespace hetsgd
