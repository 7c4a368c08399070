// Launchers of Adasum's two passes. n = 0: sums of 0, and nothing to combine.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace hetsgd::cuda {

// sums[0..2] <- x.y, ||x||^2, ||y||^2, in double, over n in a fixed order. `partials` has room for
// 3 kMostPartials numbers; both are device memory.
template <class Real>
void products(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
              double* sums);
// z = a x + b y, made in double and rounded once; z may be x or y.
template <class Real>
void combine(cudaStream_t stream, std::size_t n, double a, const Real* x, double b, const Real* y,
             Real* z);

}  // namespace hetsgd::cuda
