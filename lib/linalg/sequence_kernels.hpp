// The kernel family of recurrent layers, beside products: the computation of an LSTM from the sums
// of its gates, and the steps of sequences. Its rules (memory, order, errors, NaN) are those of
// BasicDevice. Free of fmt, because CUDA sources include this.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"

namespace hetsgd {

// One step of n sequences X [n x numbers x steps].
struct SequenceStep {
  std::size_t numbers = 1, steps = 1, step = 0;
};

template <class Real>
class BasicSequenceKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "sequence kernels";

  // rows [n x numbers], `stride` apart, <- that step of X.
  virtual void read_step(const SequenceStep& step, std::size_t n, const Real* X, Real* rows,
                         std::size_t stride) = 0;
  // That step of X <- beta X + rows; beta = 0 never reads X.
  virtual void write_step(const SequenceStep& step, std::size_t n, const Real* rows,
                          std::size_t stride, Real beta, Real* X) = 0;

  // From the sums Z [n x 4 units] of the gates input i, forget f, cell g and output o:
  //   i, f, o = sigmoid(z), g = tanh(z), c = f c' + i g, h = o tanh(c)
  // kept [n x 6 units] <- i, f, g, o, c, h. c' is taken from `before`, which the previous step has
  // kept; null: zero. The rows of h [n x units] lie `stride` apart.
  virtual void gates(std::size_t n, std::size_t units, const Real* Z, const Real* before,
                     Real* kept, Real* h, std::size_t stride) = 0;
  // The gradient dZ from dh and dc [n x units]. dh is the gradient by h; dc is that by c from later
  // steps, and becomes the gradient by c'.
  virtual void gates_gradient(std::size_t n, std::size_t units, const Real* kept,
                              const Real* before, const Real* dh, Real* dc, Real* dZ) = 0;
};

}  // namespace hetsgd
