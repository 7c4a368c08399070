// The kernels of the fused softmax layer (fused_softmax.hpp) share these.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/check.hpp"
#include "linalg/cuda/fused_softmax.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kWeightScale = 16;
inline constexpr float kShift = 14, kShifted = 16384;  // exp(z - m) is scaled by 2^14
inline constexpr unsigned kNoMore = 0xFFFFFFFFU;
inline constexpr unsigned kRowBytes = kFusedInputs * sizeof(float);

__device__ __forceinline__ float minus_infinity() { return -INFINITY; }

// A layer's numbers as the kernels read them.
struct Operands {
  std::size_t rows, outputs;
  const float *A, *W, *b;
  const std::uint64_t* begin;   // of the labels of each row
  const std::uint32_t* labels;  // ascending in each row
};

inline Operands operands_of(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer) {
  return {labels.rows, layer.outputs, layer.input, layer.weight,
          layer.bias,  labels.begin,  labels.index};
}

// Lets a kernel have as much shared memory as `Shared` takes.
template <class Shared, class Kernel>
void allow_shared(Kernel* kernel) {
  HETSGD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(sizeof(Shared))));
}

}  // namespace hetsgd::cuda
