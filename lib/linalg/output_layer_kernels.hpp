// The kernel family of output layers over labels: softmax and sigmoid losses with their gradients,
// the fused softmax layer, and the best labels. Its rules (memory, order, errors, NaN) are those of
// BasicDevice. `labels` must come from the device's stage(), and its rows are the samples. Free of
// fmt, because CUDA sources include this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

// A dense output layer with softmax cross-entropy. The rows of the batch are the rows of the
// labels. With `row`, they are the rows row[0], row[1], ... of `input` and `input_gradient`, and
// the other rows are left as they are: the targets of tokens. Then the bits do not depend on the
// number of a CPU's cores.
template <class Real>
struct SoftmaxLayer {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  const std::uint32_t* row = nullptr;  // [rows], ascending, host memory; null: rows 0, 1, ...
  const Real* input = nullptr;         // A [rows x inputs]
  const Real* weight = nullptr;        // W [outputs x inputs]
  const Real* bias = nullptr;          // b [outputs]; null: none, and no gradient by it
  Real smoothing = 0;                  // share of T that all labels divide among themselves
  Real scale = 1;                   // of the loss inside the gradients: 1 / batch size gives means
  Real alpha = 1, beta = 0;         // of the accumulation
  Real* weight_gradient = nullptr;  // G [outputs x inputs]; may be `weight` itself
  Real* bias_gradient = nullptr;    // g [outputs]; may be `bias` itself
  Real* input_gradient = nullptr;   // dA [rows x inputs]

  std::size_t source_row(std::size_t r) const { return row ? row[r] : r; }
};

template <class Real>
class BasicOutputLayerKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "output layer kernels";

  // Softmax cross-entropy, forward and gradient in one pass over the logits:
  //   Z[rows x n] holds X W (without bias); Z <- scale * (softmax(Z + bias) - T), T_rl = 1/|Y_r| on
  //   true labels, which ascend; rows without labels: Z <- 0 and no loss. Max-subtracted. bias may
  //   be null. Returns the sum over rows of -sum_l T_rl log softmax_rl.
  virtual DeferredSum softmax_cross_entropy(const SparseRows<Real>& labels, std::size_t n,
                                            const Real* bias, Real scale, Real* Z) = 0;
  // The same without the gradient: Z <- Z + bias, returns the loss sum.
  virtual DeferredSum softmax_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                   Real* Z) = 0;
  // Forward, gradient and accumulation of the output layer in one call, the hot path of a model
  // with many labels; the logits never leave the device's scratch:
  //   Z = A W^T + b, D = scale (softmax(Z) - T), dA = D W,
  //   T = (1 - smoothing) [true labels] / |Y| + smoothing / outputs,
  //   G = beta G + alpha D^T A, g = beta g + alpha D^T 1
  // With G = W, g = b, beta = 1 and alpha = -learning rate it is the SGD step of the layer; dA is
  // computed with the weights before it. Rows without labels: D = 0 and no loss. A row's labels
  // must ascend. beta = 0 never reads G and g. Returns the loss sum over the rows; NaN if any logit
  // of a labelled row is NaN.
  virtual DeferredSum softmax_layer(const SparseRows<Real>& labels,
                                    const SoftmaxLayer<Real>& layer) = 0;
  // Evaluates the output layer: the loss sum over the rows, as above, and the k best labels of each
  // row, as top_k orders them, into `top` [rows x k] in device memory. It works block of labels by
  // block, so that the scores are never all in memory. It reads these members of `layer`: inputs,
  // outputs, row, input, weight and bias.
  virtual DeferredSum softmax_ranks(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
                                    std::size_t k, std::uint32_t* top) = 0;

  // Labels one against all: Z[rows x n] <- scale * (sigmoid(Z + bias) - T), T_rl = 1 on true
  // labels, which ascend, else 0. bias [n] may be null. Returns the sum over all logits of log(1 +
  // exp(-+z)) in its stable form.
  virtual DeferredSum sigmoid_cross_entropy(const SparseRows<Real>& labels, std::size_t n,
                                            const Real* bias, Real scale, Real* Z) = 0;
  // The same without the gradient: Z <- Z + bias, returns the loss sum.
  virtual DeferredSum sigmoid_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                   Real* Z) = 0;

  // The 1 <= k <= min(n, 16) largest of each row of Z[rows x n], best first. The smaller label wins
  // a tie; NaN ranks last. Host output top[rows x k].
  virtual void top_k(std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
                     std::uint32_t* top) = 0;
};

using OutputLayerKernels = BasicOutputLayerKernels<float>;

}  // namespace hetsgd
