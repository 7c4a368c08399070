// The passes of a training batch over an MLP with one hidden layer whose softmax runs over the
// active labels of each sample alone (SLIDE). The caller keeps the parameters and moves their rows:
//
//   select   hidden layer A = relu(x W0 + b0) -> buckets of its codes -> S_i of each sample
//   learn    the active labels, as in sampled_softmax.hpp; the gradients of their rows go to the
//            caller. Then layer 0; its gradient stays here until the caller takes it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "linalg/sparse_kernels.hpp"
#include "model/labels/hashed_labels.hpp"
#include "model/model.hpp"

namespace hetsgd {

// The widths of an MLP with one hidden layer, and where its blocks begin; layer 0's weight is at 0.
struct SampledShape {
  // Throws Error(usage) for another model or objective.
  explicit SampledShape(const Model& model);

  std::size_t features, hidden, labels;
  std::size_t bias0, weight, bias;
};

// Scratch of one batch at a time, on a CPU.
class SampledPass {
 public:
  // All arguments outlive it. charged: the model that a batch is charged for. Throws what
  // SampledShape throws.
  SampledPass(const Model& model, const Model& charged, Device& device,
              const ActiveOptions& options, std::uint64_t seed);

  const SampledShape& shape() const { return shape_; }
  // fn(i, begin, end) of 0 .. n on all cores.
  template <class Fn>
  void split(std::size_t n, const Fn& fn) const {
    const std::size_t parts = cores_.count();
    cores_.run(parts,
               [&](std::size_t part) { fn(part, n * part / parts, n * (part + 1) / parts); });
  }
  HostCores& cores() const { return cores_; }

  // The features of the batch, ascending: the rows of layer 0 that the batch reads and moves.
  std::span<const Index> touch(const Batch& batch);
  std::span<const Index> touched() const { return touched_; }
  // Computes the hidden layer from layer 0 [features x H], which its bias follows, and chooses the
  // labels. t: index of the batch, which seeds the draw of labels. index: null if all labels are
  // active.
  void select(const Batch& batch, const float* w0, const LabelIndex* index, std::uint64_t t);
  // The active labels of the batch selected last, ascending.
  std::span<const std::uint32_t> labels() const { return softmax_.labels(); }
  const ActiveSets& sets() const { return sets_; }

  // Returns the mean loss over the active labels. The arguments are those of BasicSampledSoftmax.
  double learn(const Batch& batch, const SampledSoftmax::Read& read,
               const SampledSoftmax::Weight& weight, const SampledSoftmax::Sink& sink);
  // After learn(): the gradient by a touched row of layer 0 [H], and the gradient by its bias. The
  // caller zeroes a row's gradient when it has taken it.
  float* layer0_gradient(std::size_t row) { return &layer0_gradient_[row * shape_.hidden]; }
  const float* bias0_gradient() const { return bias0_gradient_.data(); }

  // Measures which of the best labels of these samples the tables retrieve at w [n]. w must not
  // change meanwhile.
  ProbedRecall probe(const Batch& samples, std::span<const float> w, const LabelIndex& index);

  // Cost of select(), of learn() and of building an index, in floating-point operations, bytes and
  // launches. `batch` has the shape that is charged; for learn_work() it is the batch selected
  // last. If the charged model is larger, the tables are taken to retrieve the same share of its
  // labels as here.
  Work select_work(const BatchShape& batch) const;
  Work learn_work(const BatchShape& batch) const;
  Work index_work() const;

 private:
  void activate(const Batch& batch, const float* w0);
  SparseRows<float> features(const Batch& batch) const;
  // The quantities that determine the cost of a batch: pairs, active labels, touched features,
  // entries of buckets.
  struct Counts {
    double pairs, labels, features, entries;
  };
  Counts counts(const BatchShape& batch) const;

  const Model& model_;
  Device& device_;
  const SampledShape shape_, charged_;
  const ActiveOptions options_;
  const HashedLabels hashing_;
  const std::uint64_t seed_;
  HostCores& cores_;
  SparseKernels& sparse_;
  std::unique_ptr<ModelContext> context_;
  TouchedRows features_;
  std::vector<Index> touched_;
  ActiveSets sets_;
  SampledSoftmax softmax_;
  std::vector<float> activation_, layer0_gradient_;  // [batch x H], [features x H], zero between
  std::vector<float> bias0_gradient_;                // [H]
};

}  // namespace hetsgd
