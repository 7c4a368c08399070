// The three products of a softmax layer in FP32 by tensor cores (split.hpp), with their memory: for
// the layers of SoftmaxLayerRun that are large enough to gain by it.
#pragma once

#include <cstddef>

#include "linalg/cuda/blas.hpp"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/softmax.hpp"
#include "linalg/cuda/split.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cuda {

class SplitLayer {
 public:
  // Layers of at least `from_logits` logits are taken, and none if the GPU gains nothing.
  SplitLayer(const Stream& stream, Blas& blas, std::size_t from_logits);

  bool takes(std::size_t rows, const SoftmaxLayer<float>& layer) const;

  // The labels of a block whose halves of W, and those of D for so many rows, are not too large.
  // No rows: there is no D.
  static std::size_t block_labels(std::size_t rows, std::size_t inputs);
  // The scales of a call and the halves of A. Blocks have at most `labels` columns.
  void begin(std::size_t rows, std::size_t labels, const SoftmaxLayer<float>& layer);
  // The halves of a block's rows of W, which those of the next block replace.
  void weights(const SoftmaxLayer<float>& layer, const LogitBlock<float>& block);
  // Z = A W^T of the block whose weights came last.
  void logits(const LogitBlock<float>& block);
  // Where the softmax's gradient leaves D of a block of so many columns.
  SplitGradient gradient(std::size_t columns);
  // From the halves of D and of W's rows: dA += D W, beginning with the first block, and G's rows.
  void gradients(const SoftmaxLayer<float>& layer, const LogitBlock<float>& block);
  // dA, after all blocks.
  void end(const SoftmaxLayer<float>& layer);

 private:
  std::size_t padded(std::size_t columns) const;

  const Stream& stream_;
  Blas& blas_;
  const std::size_t from_logits_;
  DeviceMemory facts_memory_, input_memory_, weight_memory_, gradient_memory_, parts_memory_;

  // The operands of one call.
  std::size_t rows_ = 0, inputs_ = 0;
  std::size_t chunk_ = 0, chunks_ = 0;  // labels whose part of dA is a product of its own
  float gradient_scale_ = 1;
  SplitFacts* facts_ = nullptr;
  HalfBits *input_beside_ = nullptr, *input_below_ = nullptr, *weight_ = nullptr,
           *gradient_ = nullptr;
  float* parts_ = nullptr;
};

}  // namespace hetsgd::cuda
