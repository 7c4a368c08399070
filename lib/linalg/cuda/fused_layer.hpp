// The fused softmax layer (fused_softmax.hpp) with its memory: the calls that it takes, and its two
// halves. The caller sends the loss off between them.
#pragma once

#include <cstddef>

#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/fused_softmax.hpp"

namespace hetsgd::cuda {

class FusedLayerRun {
 public:
  explicit FusedLayerRun(Backend& backend);

  // Whether this GPU, its precision and the layer's shape are those that the kernels are made for.
  // Others take the way through cuBLAS (softmax_layer.hpp).
  bool takes(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer) const;
  // Computes the loss of each row, [rows] in device memory, and the gradient of the input.
  const double* forward(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer);
  // Computes the other gradients. Must get the operands of the preceding forward().
  void backward(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer);

 private:
  FusedScratch reserve(const SoftmaxLayer<float>& layer, std::size_t rows, std::size_t nonzeros);

  Backend& backend_;
  bool has_kernels_ = false;
  std::size_t multiprocessors_ = 0;
  DeviceMemory tiles_, parts_, rows_, labels_, losses_;

  // The operands of one call.
  FusedPlan plan_;
  FusedScratch scratch_;
  ByColumn by_label_;
};

}  // namespace hetsgd::cuda
