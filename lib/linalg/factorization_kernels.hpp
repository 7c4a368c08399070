// The kernel family of factorisation machines: the pairwise term of sparse rows and its gradient.
// Its rules (memory, order, errors, NaN) are those of BasicDevice. X must come from the device's
// stage(). Free of fmt, because CUDA sources include this.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

// n machines of K factors each: V is [columns x n K], and factor k of machine l lies in column l K
// + k. The pairwise term of row r in machine l, sum over i < j of x_i x_j <v_i, v_j>, is computed
// in linear time (Rendle 2010, lemma 3.1), with s_rlk = sum over i of x_ri v_ilk:
//   p_rl = 1/2 sum over k of (s_rlk^2 - sum over i of x_ri^2 v_ilk^2)
template <class Real>
class BasicFactorizationKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "factorization kernels";

  // S[rows x n K] <- s;  Z[rows x n] += p.
  virtual void forward(const SparseRows<Real>& X, std::size_t n, std::size_t K, const Real* V,
                       Real* S, Real* Z) = 0;
  // G_ilk += alpha * sum over r of D_rl x_ri (s_rlk - x_ri v_ilk), the gradient by V; D[rows x n]
  // is the gradient by p. G may be V: the gradient is taken at V before it moves. Only rows of G
  // that occur in X are touched.
  virtual void backward(const SparseRows<Real>& X, std::size_t n, std::size_t K, Real alpha,
                        const Real* D, const Real* S, const Real* V, Real* G) = 0;
};

}  // namespace hetsgd
