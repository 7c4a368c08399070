#include "model/labels/label_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace hetsgd {
namespace {

const char* name_of(ScoredLabels objective) {
  return objective == ScoredLabels::sampled ? "sampled" : "hashed";
}

}  // namespace

void LabelChoice::declare(OptionSet& set) {
  set.add_choice(
      "objective", objective,
      {{"full", ScoredLabels::full},
       {"sampled", ScoredLabels::sampled},
       {"hashed", ScoredLabels::hashed}},
      "Labels that the softmax of a training sample runs over. full takes all labels, sampled the "
      "true ones and random others, hashed the true ones and those that hash tables over the "
      "output layer find. sampled and hashed run on CPUs only. An evaluation takes all labels.");
  set.add("negatives", negatives,
          "Labels that the softmax of a training sample runs over, where random ones fill up the "
          "number. A sample with more true labels takes all of these.")
      .unit("labels")
      .range(1, 4e9)
      .needs("objective", {"sampled", "hashed"});
  hashing.declare(set);
}

LabelChoice LabelChoice::fitting(Task task, std::size_t outputs, std::size_t inputs) const {
  LabelChoice choice = *this;
  if (is_full()) return choice;
  if (task == Task::binary) {
    refuse("--objective", fmt::format("{} with binary labels", name_of(objective)),
           "several labels to choose from",
           "leave it out: the objective of binary data is the sigmoid of one score");
  }
  choice.negatives = std::min<std::uint64_t>(negatives, outputs);
  if (objective == ScoredLabels::hashed) choice.hashing.hash = hashing.hash_of(inputs);
  return choice;
}

std::string LabelChoice::cpu_only() const {
  if (is_full()) return "";
  return fmt::format("--objective {} runs on the host's cores", name_of(objective));
}

Work LabelChoice::work(const BatchShape& batch, std::size_t outputs, std::size_t inputs) const {
  const double n = batch.samples, least = static_cast<double>(negatives);
  const auto a = static_cast<double>(inputs), N = static_cast<double>(outputs);
  const double Q = n * least + batch.labels;
  const bool is_hashed = objective == ScoredLabels::hashed;
  const double U = is_hashed ? std::min(N, Q) : least + batch.labels;
  const Work softmax{6 * Q * a + 5 * Q, 4 * (4 * U * a + 3 * Q + 4 * n * a), 4};
  if (!is_hashed) return softmax;
  return softmax + hashing.query_work(n, a) + hashing.table_work(N / hashing.rehash, a);
}

template <class Real>
BasicChosenSoftmax<Real>::BasicChosenSoftmax(const LabelChoice& choice, std::size_t outputs,
                                             std::size_t inputs, HostCores& cores)
    : outputs_(outputs) {
  HETSGD_CHECK(!choice.is_full());
  if (choice.objective == ScoredLabels::hashed) {
    hashed_.emplace(choice.hashing, outputs, inputs, choice.negatives, cores);
  } else {
    drawn_.emplace(outputs, inputs, choice.negatives, cores);
  }
}

template <class Real>
BasicSampledSoftmax<Real>& BasicChosenSoftmax<Real>::choose(const Batch& batch, const Real* A,
                                                            const Real* W) {
  return hashed_ ? hashed_->choose(batch, A, W) : drawn_->of(batch);
}

template <class Real>
void BasicChosenSoftmax<Real>::labels_of(const Batch& batch, std::vector<Index>& labels) {
  const auto known =
      hashed_ ? hashed_->labels_of(batch) : std::optional(drawn_->of(batch).labels());
  if (known) {
    labels.assign(known->begin(), known->end());
  } else {
    labels.resize(outputs_);
    std::iota(labels.begin(), labels.end(), Index{0});
  }
}

template class BasicChosenSoftmax<float>;
template class BasicChosenSoftmax<double>;

}  // namespace hetsgd
