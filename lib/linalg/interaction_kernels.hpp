// The kernel family of feature interactions in dense vectors: the factorisation machine over the
// embeddings of a sample's fields, and the cross layer. Its rules (memory, order, errors, NaN) are
// those of BasicDevice. Free of fmt, because CUDA sources include this.
#pragma once

#include <cstddef>
#include <limits>

#include "linalg/kernel_family.hpp"

namespace hetsgd {

// The places of a sample's embeddings v_1 .. v_F, of D elements each, in its vector of `width`
// elements.
struct FieldVectors {
  std::size_t width = 0;
  std::size_t first = 0;  // of v_1
  std::size_t fields = 0, embedding = 0;
};

template <class Real>
class BasicInteractionKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "interaction kernels";

  // Factorisation machine of order 2 (Rendle 2010, lemma 3.1) without weights:
  //   S[rows x D] <- sum_f v_f;  z[rows] += 1/2 sum_k (S_k^2 - sum_f v_fk^2)
  virtual void fm_forward(std::size_t rows, const FieldVectors& shape, const Real* Y, Real* S,
                          Real* z) = 0;
  // dY_fk += d_r (S_rk - v_fk); d[rows] is the gradient by z.
  virtual void fm_backward(std::size_t rows, const FieldVectors& shape, const Real* Y,
                           const Real* S, const Real* d, Real* dY) = 0;

  // The number of rows whose cross layers are best all computed before those of the next rows, so
  // that they stay in a cache. It is a multiple of 256, whatever the number of cores; a GPU has no
  // such limit.
  virtual std::size_t cross_rows() const { return std::numeric_limits<std::size_t>::max(); }
  // Cross layer (Wang, Fu, Fu, Wang 2017, equation 3); all matrices are [rows x n]:
  //   s[rows] <- x.w;  y <- x0 s + b + x
  virtual void cross_forward(std::size_t rows, std::size_t n, const Real* x0, const Real* x,
                             const Real* w, const Real* b, Real* s, Real* y) = 0;
  // From g, the gradient by y: t[rows] <- g.x0;  dx0 += g s;  g <- g + t w, which is the gradient
  // by x without its share by x0. (The gradients by w and b are sum_r t x and sum_r g, with g
  // before the call.)
  virtual void cross_backward(std::size_t rows, std::size_t n, const Real* x0, const Real* w,
                              const Real* s, Real* t, Real* g, Real* dx0) = 0;
};

}  // namespace hetsgd
