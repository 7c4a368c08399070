// The passes of a training batch over an MLP with one hidden layer whose softmax runs over the active
// labels of each sample alone (SLIDE), for a caller that keeps the parameters and moves their rows:
//
//   select   hidden layer A = relu(x W0 + b0) -> buckets of its codes -> S_i of each sample
//   learn    the active labels, as sampled_softmax.hpp, whose rows' gradients go to the caller; then
//            layer 0's, which stay here until the caller takes them
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
  // Errors: usage, another model or objective.
  explicit SampledShape(const Model& model);

  std::size_t features, hidden, labels;
  std::size_t bias0, weight, bias;
};

// Scratch of one batch at a time, on a CPU.
class SampledPass {
 public:
  // All outlive it. charged: the model that a batch is charged for. Errors: as SampledShape.
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

  // The features of the batch, ascending: layer 0's rows that it reads and moves.
  std::span<const Index> touch(const Batch& batch);
  std::span<const Index> touched() const { return touched_; }
  // From layer 0 [features x H] with its bias behind it. t: number of the batch, by which labels are
  // drawn. index: null where all labels are active.
  void select(const Batch& batch, const float* w0, const LabelIndex* index, std::uint64_t t);
  // Of the batch selected last.
  std::span<const std::uint32_t> labels() const { return softmax_.labels(); }
  const ActiveSets& sets() const { return sets_; }

  // Returns the mean loss over the active labels. The arguments: as BasicSampledSoftmax has them.
  double learn(const Batch& batch, const SampledSoftmax::Read& read,
               const SampledSoftmax::Weight& weight, const SampledSoftmax::Sink& sink);
  // After learn(): the gradient by a touched row of layer 0 [H], which the caller fills with zeros
  // when it has taken it; and by its bias.
  float* layer0_gradient(std::size_t row) { return &layer0_gradient_[row * shape_.hidden]; }
  const float* bias0_gradient() const { return bias0_gradient_.data(); }

  // What the tables hold of the best labels of these samples at w [n], which nobody moves.
  ProbedRecall probe(const Batch& samples, std::span<const float> w, const LabelIndex& index);

  // What they cost, in floating-point operations, bytes and launches. `batch` is as it is charged,
  // that of learn() the one selected last. A larger model is charged for as large a share of its
  // labels as the tables have led to here.
  Work select_work(const BatchShape& batch) const;
  Work learn_work(const BatchShape& batch) const;
  Work index_work() const;

 private:
  void activate(const Batch& batch, const float* w0);
  SparseRows<float> features(const Batch& batch) const;
  // What a batch costs by: pairs, active labels, touched features, entries of buckets.
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
