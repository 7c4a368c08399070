// Launchers of sums over vectors, of element-wise rules, and of the kernels on dense matrices. Each
// streams its operands once, so the floor of a call is its operands' bytes over the memory's
// bandwidth. n = 0 launches nothing. The contracts are those of BasicDevice.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/element_rules.hpp"

namespace hetsgd::cuda {

// Scratch of column_sums(): room for row_groups(rows, n) * n elements for the sums of groups, and a
// counter for each tile of kThreads columns, all 0 (Counters).
template <class Real>
struct ColumnScratch {
  Real* partials = nullptr;
  unsigned* arrived = nullptr;
};

// Sums: `partials` has room for kMostPartials numbers; *sum is device memory. n = 0: *sum is 0.
template <class Real>
void dot(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
         double* sum);
// *sum <- x[0] + ... + x[n-1].
void add_up(cudaStream_t stream, std::size_t n, const double* x, double* sum);
// sums[0..2] <- x.y, ||x||^2, ||y||^2, in double, over n in a fixed order. `partials` has room for
// 3 kMostPartials numbers; both are device memory.
template <class Real>
void products(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
              double* sums);

// Element-wise rules. `rows`: [count] in device memory, without repetitions.
template <class Real>
void run_rule(cudaStream_t stream, std::size_t n, const ElementRule<Real>& rule);
template <class Real>
void run_rule_on_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows,
                      std::size_t n, const ElementRule<Real>& rule);
template <class Real>
void run_norm_rule(cudaStream_t stream, std::size_t n, const NormRule<Real>& rule, double* partials,
                   double* sum);

// C[m x n] <- beta C with rows of ldc elements, the product for k = 0. beta = 0 never reads C.
template <class Real>
void scale_matrix(cudaStream_t stream, std::size_t m, std::size_t n, Real beta, Real* C,
                  std::size_t ldc);
template <class Real>
void bias_relu(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* bias, Real* Y);
// b += alpha sum over rows of D. Each thread adds up a group of rows of its column, then one thread
// adds the groups. The order is fixed, whichever block comes last and adds them.
template <class Real>
void column_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha, const Real* D,
                 Real* b, const ColumnScratch<Real>& scratch);
// The same after D <- 0 where Y <= 0.
template <class Real>
void relu_gradient_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha,
                        const Real* Y, Real* D, Real* b, const ColumnScratch<Real>& scratch);
// b <- beta b + alpha sum over groups of partials [groups x n]. beta = 0 never reads b.
template <class Real>
void add_groups(cudaStream_t stream, std::size_t groups, std::size_t n, Real alpha,
                const Real* partials, Real beta, Real* b);

// Fails as a launch would if this binary has no code for the current device.
void check_kernels();

}  // namespace hetsgd::cuda
