// Launcher of the reduction of several vectors, for collectives between GPUs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace hetsgd::cuda {

enum class Reduction { sum, max, min };

// Upper bound of the operands of a launch, which are passed as arguments of the kernel.
inline constexpr std::size_t kMostOperands = 64;

// out[j][i] = ((in[0][i] op in[1][i]) op in[2][i]) ... for i < n and every j, with the bits of the
// reduction on the host (cluster/reduce.hpp), ties and NaN included. An output may be one of the
// inputs; other overlaps are not allowed. 1 <= inputs, outputs <= kMostOperands. The current GPU
// must reach all operands. Each is read or written once. For float, double and std::int64_t.
template <class T>
void reduce_vectors(cudaStream_t stream, std::size_t n, Reduction op, const T* const* in,
                    std::size_t inputs, T* const* out, std::size_t outputs);

}  // namespace hetsgd::cuda
