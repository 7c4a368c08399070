// Models: the loss and gradient of a batch at a flat parameter vector.
//
// Parameters are one contiguous vector with named layer views (Layout), so that every merge rule,
// collective and optimizer is written once. A model is immutable and shared; scratch memory lives
// in a ModelContext, one per concurrent computation.
//
// Two ways to learn from a batch (gradients are means over the batch's samples):
//   gradient(w) -> g   for what is communicated: dense parts + touched rows of row-sparse layers
//   step(w, lr)        w <- w - lr g, fused: the products accumulate straight into the weights,
//                      only touched rows of layer 0 move, no dense gradient is ever built
// The two agree up to rounding: step(w, lr) == w - lr * gradient(w).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// One parameter tensor inside the flat vector.
struct LayerView {
  std::string name;        // "layer0.weight", "layer0.bias", ...
  std::size_t offset = 0;  // in numbers
  std::size_t rows = 0;    // biases: 1
  std::size_t cols = 0;
  bool row_sparse = false;  // its gradient touches only the rows that occur in the batch
  std::size_t fan_in = 0;   // of the layer that it belongs to
  std::size_t fan_out = 0;

  std::size_t size() const { return rows * cols; }
};

struct Layout {
  std::vector<LayerView> layers;
  std::size_t size = 0;  // numbers in all
};

// The numbers that decide a model's shape and work; `--charge` swaps in those of a full-size data
// set.
//
// Layout: layer0.weight [features x H] (a row per feature, row-sparse), layer0.bias, then for every
// further layer its weight [outputs x inputs] and bias. A linear model has layer 0 alone,
// [features x outputs]. Why [outputs x inputs]: the softmax layer visits the labels block by block,
// and so a block's weights are one contiguous piece of memory (linalg/cpu/softmax_layer.hpp). Plain
// products gain as well: OpenBLAS, AVX-512, batch 64, 128 inputs, 983 outputs, D^T A 153 against
// A^T D 142 GFLOP/s, D W 129 against 108, forward 110 against 131.
//
// Work of a batch with n samples and z nonzeros, numbers of 4 bytes, dense layers of a inputs and b
// outputs (floating-point operations; bytes that kernels move which keep nothing in a cache; kernel
// launches of a GPU):
//   layer 0       forward   2zH          8z + 4zH + 4nH        1
//                 backward  2zH + nH     8z + 8zH + 8nH        2  update, bias sums
//   dense layer   forward   2nab         4(ab + na + nb)       1
//                 backward  4nab + nb    4(3ab + 2na + 3nb)    3  dX, update (reads, writes), bias
//   hidden layer  forward   2nH          8nH (0 for layer 0)   1 (0 for layer 0: on the way)
//                 backward  nH           12nH                  1
//   loss          training  5nb          8nb + 4 labels        1
//                 scoring   4nb          12nb + 4 labels       2  with top-k
// All are affine in (samples, nonzeros, labels): two batches cost as much as the joint one plus
// once more the weights' bytes and the launches. The fused softmax layer of the CPU moves less than
// this; a calibrated profile has that in its effective bandwidth.
struct ModelShape {
  Index feature_count = 0;
  Index label_count = 0;
  std::vector<std::size_t> hidden;  // empty: linear model
  Task task = Task::multilabel;

  Layout layout() const;
  std::size_t parameters() const { return layout().size; }
  // Work of one gradient (or fused step; the same model of cost) of a batch, and of scoring it.
  Work gradient_work(const BatchShape& batch) const;
  Work scoring_work(const BatchShape& batch) const;
  // Device memory that grows with a batch, per sample of a batch like this one: scores, hidden
  // layers and their gradients, nonzeros and labels (of two batches, and sorted by feature).
  double sample_bytes(const BatchShape& batch) const;
};

// A gradient as a flat vector in the model's layout. Outside `rows` the row-sparse layer is zero,
// so the whole vector is valid as it stands: collectives may sum all of it or only the touched
// rows.
template <class Real>
struct BasicGradient {
  BasicBuffer<Real> flat;   // [parameters]
  std::vector<Index> rows;  // touched rows of the row-sparse layer 0, ascending; host memory
};
using Gradient = BasicGradient<float>;

// Scratch memory for one computation at a time; grows to the largest batch. Each model derives its
// own, which is of use to that model alone.
template <class Real>
class BasicModelContext {
 public:
  explicit BasicModelContext(BasicDevice<Real>& device) : device_(device) {}
  virtual ~BasicModelContext() = default;
  BasicModelContext(const BasicModelContext&) = delete;
  BasicModelContext& operator=(const BasicModelContext&) = delete;

  BasicDevice<Real>& device() const { return device_; }

  // Says which batch the next call will be about (null: not known), so that its way to a GPU hides
  // behind this call's kernels: asked when they have all been launched and the result is not there
  // yet. The batch must live until the next call. A wrong answer costs a copy. Not asked on CPUs.
  std::function<const Batch*()> upcoming;

 private:
  BasicDevice<Real>& device_;
};

template <class Real>
class BasicModel {
 public:
  virtual ~BasicModel() = default;

  virtual const ModelShape& shape() const = 0;
  virtual const Layout& layout() const = 0;
  std::size_t parameters() const { return layout().size; }

  virtual std::unique_ptr<BasicModelContext<Real>> make_context(
      BasicDevice<Real>& device) const = 0;

  // All calls: a GPU without room for the batch is a MemoryError whose hint names a batch size that
  // fits.

  // Mean loss of the batch at w; g <- its gradient. Outside g.rows, layer 0 of g.flat must have
  // been zero before (as make_gradient and a former call leave it). Rows without labels contribute
  // neither loss nor gradient, but count in the divisor (the batch size); with Task binary they are
  // negative samples. The batch must not be empty, and its data set no wider than the shape.
  virtual double gradient(BasicModelContext<Real>& context, const Batch& batch, const Real* w,
                          BasicGradient<Real>& g) const = 0;

  // w <- w - learning_rate * gradient; returns the mean loss before the step.
  virtual double step(BasicModelContext<Real>& context, const Batch& batch, Real learning_rate,
                      Real* w) const = 0;

  // Scores of a batch into device memory logits[batch x outputs()] (bias included); returns the SUM
  // of the losses.
  virtual double scores(BasicModelContext<Real>& context, const Batch& batch, const Real* w,
                        Real* logits) const = 0;

  // Measures a batch: the SUM of the losses, and the k best labels of each sample (as
  // BasicDevice::top_k) into host memory top[batch x k]. Where the device can, the scores are never
  // all in memory. Not for Task::binary.
  virtual double rank(BasicModelContext<Real>& context, const Batch& batch, const Real* w,
                      std::size_t k, std::uint32_t* top) const = 0;

  std::size_t outputs() const { return shape().task == Task::binary ? 1 : shape().label_count; }
};

using Model = BasicModel<float>;
using ModelContext = BasicModelContext<float>;

// A zeroed gradient of the model's size on the device.
template <class Real>
BasicGradient<Real> make_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device);

// w <- w - learning_rate * g, touching only g.rows of the row-sparse layer.
template <class Real>
void apply_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device,
                    const BasicGradient<Real>& g, Real learning_rate, Real* w);

// Sparse-input MLP with ReLU hidden layers, or (hidden empty) logistic/softmax regression.
// Instantiated for float and double.
template <class Real>
std::unique_ptr<BasicModel<Real>> make_model(const ModelShape& shape);

// The initial parameters, in host memory: weights N(0, s), s = init_std or, when that is 0,
// 2 / sqrt(fan_in + fan_out), truncated at 2 s; biases 0. One counter-based draw per number: the
// same bits on every cluster and for every number of threads (0: all cores).
template <class Real>
std::vector<Real> initial_parameters(const ModelShape& shape, std::uint64_t seed, double init_std,
                                     int threads = 0);

}  // namespace hetsgd
