// The kernel family of networks over tokens, beside products and attention: embeddings, norms of
// layers and gelu. Its rules (memory, order, errors, NaN) are those of BasicDevice. Free of fmt,
// because CUDA sources include this.
//
// Maps lie token by token, [tokens x width]. Kernels that compute a gradient dX take beta: dX =
// beta dX + the gradient; beta = 0 never reads dX. Gradients by parameters are to = beta to + alpha
// (the gradient); beta = 0 never reads `to`. On a CPU the bits do not depend on the number of
// cores.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

// Parameters of an embedding, in this order: E [tokens x width], P [block x width], S [segments x
// width]. Every token of a row is in segment 0.
struct EmbedShape {
  std::size_t tokens = 1, width = 1;
  std::size_t block = 0;     // positions; 0: none
  std::size_t segments = 0;  // 0: none

  std::size_t parameters() const { return (tokens + block + segments) * width; }
};

// Which gelu (Hendrycks and Gimpel 2016): x Phi(x), or its approximation by tanh.
enum class GeluLaw { exact, tanh };

template <class Real>
class BasicTokenKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "token kernels";

  // Y = E[x] + P[t] + S[0] for token x at position t of its row; 0 for padding. X [tokens] holds
  // the numbers of the tokens.
  virtual void embed(const EmbedShape& shape, const TokenSpans& rows, const Real* X,
                     const Real* parameters, Real* Y) = 0;
  // The gradient by the parameters. E has a beta of its own, because a softmax that shares E has
  // added its part before. Sums go over the tokens in their order.
  virtual void embed_gradient(const EmbedShape& shape, const TokenSpans& rows, const Real* X,
                              const Real* dY, Real alpha, Real tokens_beta, Real beta,
                              Real* to) = 0;

  // Y = scale (x - mean) r + shift for every token, with r = (mean (x - mean)^2 + epsilon)^-1/2.
  // shift may be null. statistics [tokens x 2] <- mean, r.
  virtual void norm(std::size_t tokens, std::size_t width, const Real* X, Real epsilon,
                    const Real* scale, const Real* shift, Real* statistics, Real* Y) = 0;
  // dX may be null, and may be dY. G is the gradient by scale, g that by shift; g may be null. They
  // may be the parameters themselves, which are read before they move.
  virtual void norm_gradient(std::size_t tokens, std::size_t width, const Real* X,
                             const Real* statistics, const Real* scale, const Real* dY, Real beta,
                             Real* dX, Real alpha, Real parameter_beta, Real* G, Real* g) = 0;

  // Y = gelu(X). In float, Phi(x) has an error below 1e-7.
  virtual void gelu(GeluLaw law, std::size_t count, const Real* X, Real* Y) = 0;
  // dX may be dY.
  virtual void gelu_gradient(GeluLaw law, std::size_t count, const Real* X, const Real* dY,
                             Real beta, Real* dX) = 0;
};

}  // namespace hetsgd
