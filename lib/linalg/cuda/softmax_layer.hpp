// The dense output layer with softmax cross-entropy in two passes over blocks of labels:
//   forward   per block: Z = A W^T (cuBLAS), statistics of Z + b; then the rows' losses
//   backward  per block: [Z once more, if it was not kept], D from Z, dA += D W with the old W,
//             G = beta G + alpha D^T A, which with G = W is the update; at the end g
// Between the two the caller sends the loss off, so that the host can have it while the GPU works.
// Evaluation needs the forward pass alone, in room for one block of logits:
//   rank      per block: Z = A W^T, statistics of Z + b, candidates for the best labels from the
//             parts whose largest logit the statistics found to be among the best
//
// Large layers of floats on GPUs whose tensor cores are far faster than their FP32 units take the
// products of split_layer.hpp, which are as exact.
//
// Floor of a call with n samples, a inputs, b labels: 6nab operations (8nab for blocks that are not
// kept), W read twice and G written once (with beta also read), 3ab to 4ab elements.
#pragma once

#include <cstddef>

#include "linalg/cuda/blas.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/ranking.hpp"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/softmax.hpp"
#include "linalg/cuda/split_layer.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cuda {

// Memory for the softmax values of each row.
template <class Real>
class SoftmaxScratch {
 public:
  explicit SoftmaxScratch(const Stream& stream)
      : parts_(stream), row_reals_(stream), row_doubles_(stream) {}
  SoftmaxRows<Real> reserve(std::size_t rows, std::size_t parts, Real smoothing = 0,
                            std::size_t labels = 0);

 private:
  DeviceMemory parts_, row_reals_, row_doubles_;
};

template <class Real>
class SoftmaxLayerRun {
 public:
  // At most `budget` bytes of logits are kept between the passes, in blocks of at most `block`.
  // Layers of floats with at least `split_from` logits are products of halves.
  SoftmaxLayerRun(const Stream& stream, Blas& blas, Ranking<Real>& ranking, std::size_t budget,
                  std::size_t block, std::size_t split_from)
      : stream_(stream),
        blas_(blas),
        ranking_(ranking),
        budget_(budget),
        block_(block),
        scratch_(stream),
        logits_(stream),
        partials_(stream),
        split_(stream, blas, split_from) {}

  // The loss of each row, [rows] in device memory.
  const double* forward(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer);
  // Must get the operands of the preceding forward().
  void backward(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer);
  // The loss of each row, as from forward(), and the k best labels of each row in device memory
  // top[rows x k].
  const double* rank(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer, std::size_t k,
                     std::uint32_t* top);

 private:
  LogitBlock<Real> block_at(const SoftmaxLayer<Real>& layer, std::size_t rows,
                            std::size_t block) const;
  void begin(std::size_t rows, std::size_t rows_back, const SoftmaxLayer<Real>& layer,
             std::size_t budget, std::size_t block);
  void multiply(const SoftmaxLayer<Real>& layer, std::size_t rows, const LogitBlock<Real>& block);
  void multiply_back(const SoftmaxLayer<Real>& layer, std::size_t rows,
                     const LogitBlock<Real>& block);

  const Stream& stream_;
  Blas& blas_;
  Ranking<Real>& ranking_;
  const std::size_t budget_, block_;
  SoftmaxScratch<Real> scratch_;
  DeviceMemory logits_, partials_;
  SplitLayer split_;

  // The operands of one call.
  LayerPlan plan_;
  SoftmaxRows<Real> rows_;
  Real* Z_ = nullptr;
  bool is_split_ = false;
};

}  // namespace hetsgd::cuda
