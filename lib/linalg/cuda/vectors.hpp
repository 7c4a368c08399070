// Launchers of the kernels on vectors and on some rows of matrices. All of them stream their
// operands once, so the floor of a call is its operands' bytes over the memory's bandwidth. n = 0
// launches nothing. The contracts are those of BasicDevice.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/operands.hpp"

namespace hetsgd::cuda {

template <class Real>
void fill(cudaStream_t stream, std::size_t n, Real a, Real* y);
template <class Real>
void axpby(cudaStream_t stream, std::size_t n, Real a, const Real* x, Real b, Real* y);
template <class Real>
void momentum_merge(cudaStream_t stream, std::size_t n, const Real* merged, Real gamma, Real* w,
                    Real* previous);
template <class Real>
void momentum_step(cudaStream_t stream, std::size_t n, const MomentumRule<Real>& rule,
                   const Real* g, Real* v, Real* w);
template <class Real>
void moment_step(cudaStream_t stream, std::size_t n, const MomentRule<Real>& rule, Real step,
                 const Real* g, Real* m, Real* v, Real* w);
template <class Real>
void moment_apply(cudaStream_t stream, std::size_t n, const MomentRule<Real>& rule, Real step,
                  const Real* m, const Real* v, Real* w);

// Sums: `partials` has room for kMostPartials numbers; *sum is device memory. n = 0: *sum is 0.
template <class Real>
void dot(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
         double* sum);
template <class Real>
void moment_update(cudaStream_t stream, std::size_t n, const MomentRule<Real>& rule, const Real* g,
                   const Real* w, Real* m, Real* v, double* partials, double* sum);
// *sum <- x[0] + ... + x[n-1].
void add_up(cudaStream_t stream, std::size_t n, const double* x, double* sum);

// `rows`: [count] in device memory, without repetitions.
template <class Real>
void fill_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows, std::size_t n,
               Real a, Real* Y);
template <class Real>
void add_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows, std::size_t n,
              Real a, const Real* X, Real* Y);
// C[m x n] <- beta C with rows of ldc numbers: a product over nothing. beta = 0 never reads C.
template <class Real>
void scale_matrix(cudaStream_t stream, std::size_t m, std::size_t n, Real beta, Real* C,
                  std::size_t ldc);

// Fails as a launch would if this binary has no code for the current device.
void check_kernels();

}  // namespace hetsgd::cuda
