// The choice of the labels for the softmax of a training sample: an object of the model, and one
// object of each of its workers.
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
  hashed,   // the true ones and those in the same hash buckets: hashed_labels.hpp
};

struct LabelChoice {
  ScoredLabels objective = ScoredLabels::full;
  std::uint64_t negatives = 1000;  // minimum of labels per sample, filled at random
  HashedLabels hashing = {};

  void declare(OptionSet& set);
  // Throws Error(usage) for hash tables that are too large for any memory.
  void validate() const { hashing.validate(); }
  // The choice for an output layer [outputs x inputs] of a task. Throws Error(usage) if there is
  // nothing to choose from, or if there are too few inputs to be hashed.
  LabelChoice fitting(Task task, std::size_t outputs, std::size_t inputs) const;
  bool is_full() const { return objective == ScoredLabels::full; }
  // Why the model runs on CPUs alone; empty: it runs on all devices.
  std::string cpu_only() const;
  // Cost of the output layer and its loss, unless the choice is full. See mlp.hpp.
  Work work(const BatchShape& batch, std::size_t outputs, std::size_t inputs) const;
};

// The softmax over chosen labels, of one worker. Not for full.
template <class Real>
class BasicChosenSoftmax {
 public:
  // choice: a result of fitting(). The cores outlive it.
  BasicChosenSoftmax(const LabelChoice& choice, std::size_t outputs, std::size_t inputs,
                     HostCores& cores);

  // Begins a batch; only hash tables read A [batch x inputs] and W [outputs x inputs].
  BasicSampledSoftmax<Real>& choose(const Batch& batch, const Real* A, const Real* W);
  // labels <- the labels of all samples of the batch, ascending. Before hash tables have been asked
  // for this batch, its labels are unknown, and the result holds all labels.
  void labels_of(const Batch& batch, std::vector<Index>& labels);
  void fields(Archive& fields) {
    if (hashed_) fields("hashed", *hashed_);
  }

 private:
  std::size_t outputs_;
  std::optional<BasicDrawnSoftmax<Real>> drawn_;
  std::optional<BasicHashedSoftmax<Real>> hashed_;
};

}  // namespace hetsgd
