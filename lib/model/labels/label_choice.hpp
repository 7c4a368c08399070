// Which labels the softmax of a training sample runs over: an object of the model, and one of each of
// its workers.
#pragma once

#include <optional>
#include <span>

#include "core/units.hpp"
#include "data/batch.hpp"
#include "model/labels/hashed_labels.hpp"
#include "model/labels/sampled_softmax.hpp"

namespace hetsgd {

enum class ScoredLabels {
  full,     // all of them
  sampled,  // the true ones and random others: sampled_softmax.hpp
  hashed,   // the true ones and those that hash tables hold near: hashed_labels.hpp
};

struct LabelChoice {
  ScoredLabels objective = ScoredLabels::full;
  std::uint64_t negatives = 1000;  // a sample's labels at least, filled at random
  HashedLabels hashing = {};

  void declare(OptionSet& set);
  // Errors: usage, hash tables that nobody has memory for.
  void validate() const { hashing.validate(); }
  // For an output layer [outputs x inputs] of a task. Errors: usage, nothing to choose from, or too few
  // inputs to be hashed.
  LabelChoice fitting(Task task, std::size_t outputs, std::size_t inputs) const;
  bool is_full() const { return objective == ScoredLabels::full; }
  // Why the model is one for CPUs alone; empty: it is not.
  std::string cpu_only() const;
  // What the output layer and its loss cost then; not for full. See mlp.hpp.
  Work work(const BatchShape& batch, std::size_t outputs, std::size_t inputs) const;
};

// The softmax over chosen labels, of one worker. Not for full.
template <class Real>
class BasicChosenSoftmax {
 public:
  // choice: a fitting one. The cores outlive it.
  BasicChosenSoftmax(const LabelChoice& choice, std::size_t outputs, std::size_t inputs,
                     HostCores& cores);

  // Begins a batch; A [batch x inputs] and W [outputs x inputs] are read by hash tables alone.
  BasicSampledSoftmax<Real>& choose(const Batch& batch, const Real* A, const Real* W);
  // The labels of all its samples, ascending. Before a batch has been learned from, nobody knows
  // which ones hash tables will lead to: all of them, then.
  void labels_of(const Batch& batch, std::vector<Index>& labels);

 private:
  std::size_t outputs_;
  std::optional<BasicDrawnSoftmax<Real>> drawn_;
  std::optional<BasicHashedSoftmax<Real>> hashed_;
};

}  // namespace hetsgd
