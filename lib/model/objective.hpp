// Objectives: the loss that a model's scores are trained with, and its gradient.
//
// An objective is stateless and shared. It works on scores that are all in memory. An objective
// with kernels for a whole output layer (fuses_layer) also works on the layer, without storing all
// scores.
// `labels` is what the device's stage() made of the batch; all pointers are memory of the device,
// and sums are over the rows of the batch. Instantiated for float and double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "linalg/device.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd {

template <class Real>
class BasicObjective {
 public:
  virtual ~BasicObjective() = default;
  virtual std::string_view name() const = 0;

  // Mean loss of the rows of `data` if all rows get the same scores, the best possible ones: the
  // loss of a model that ignores the features. NaN: not known.
  virtual double constant_loss(const Dataset& data) const;

  // Z[rows x n] holds scores without their bias [n], which may be null; `labels` are the true ones
  // of each row. Z <- scale * gradient of the row's loss by its scores; scale = 1 / rows gives the
  // gradient of the mean loss. Returns the sum of the losses.
  virtual DeferredSum learn(BasicDevice<Real>& device, const SparseRows<Real>& labels,
                            std::size_t n, const Real* bias, Real scale, Real* Z) const = 0;
  // Z <- Z + bias. Returns the sum of the losses.
  virtual DeferredSum score(BasicDevice<Real>& device, const SparseRows<Real>& labels,
                            std::size_t n, const Real* bias, Real* Z) const = 0;

  // Whether learn_layer() and rank_layer() may be called (checked).
  virtual bool fuses_layer() const { return false; }
  // Forward, gradient and accumulation of a dense output layer, as
  // BasicOutputLayerKernels::softmax_layer.
  virtual DeferredSum learn_layer(BasicDevice<Real>& device, const SparseRows<Real>& labels,
                                  const SoftmaxLayer<Real>& layer) const;
  // The sum of the losses, and the k best labels of each row in device memory, as
  // BasicOutputLayerKernels::softmax_ranks.
  virtual DeferredSum rank_layer(BasicDevice<Real>& device, const SparseRows<Real>& labels,
                                 const SoftmaxLayer<Real>& layer, std::size_t k,
                                 std::uint32_t* top) const;
};

// softmax: cross-entropy of the softmax over all labels against 1/|Y| on each true one; a row
//          without labels has no loss.
// sigmoid: the sum over the scores of their binary cross-entropy (log loss), each label against all
//          others; a row without labels is negative in all of them.
template <class Real>
const std::vector<const BasicObjective<Real>*>& objectives();
// The objective of this name, which must exist.
template <class Real>
const BasicObjective<Real>& find_objective(std::string_view name);
// The objective of a model that has no reason to choose another one.
template <class Real>
const BasicObjective<Real>& usual_objective(Task task);

}  // namespace hetsgd
