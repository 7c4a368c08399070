// A softmax layer that scores the active labels of each sample alone, label by label: no race, no
// lock, and the same bits each time.
//
//   labels' turn    z_il = W_l . A_i + b_l                      l in S_i, the active labels of i
//   samples' turn   p_i = softmax over S_i;  d_il = (p_il - [l in Y_i] / |Y_i|) / B
//   labels' turn    g_l = sum_i d_il A_i;  gb_l = sum_i d_il;  dA_i += d_il W_l
//
// A sample without true labels has d = 0 and no loss. The device's cores share the labels by equal
// numbers of (label, sample) pairs. Each core has a dA of its own, and these are added in the order
// of cores. Sources: SLIDE (arXiv 1903.03129) and sampled softmax (Jean et al. 2015), without its
// correction for the probability of being sampled. Instantiated for float and double.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/batch.hpp"
#include "linalg/host_cores.hpp"

namespace hetsgd {

// Scratch of one batch at a time, on a CPU. Memory: 16 bytes per pair and 4 bytes per label; per
// core a bit per label, 4 bytes per label of the batch and a dA.
template <class Real>
class BasicSampledSoftmax {
 public:
  // `labels` labels over `inputs` inputs. The cores outlive it.
  BasicSampledSoftmax(std::size_t labels, std::size_t inputs, HostCores& cores);

  // Begins a batch: the active labels of each sample, each once, its truth[i] true ones first. Both
  // spans must stay valid until the last call about this batch.
  void begin(std::span<const std::vector<std::uint32_t>> active,
             std::span<const std::uint32_t> truth);
  // Labels that are active for some sample, ascending. Label number u is labels()[u].
  std::span<const std::uint32_t> labels() const { return label_; }
  std::size_t pairs() const { return sample_.size(); }

  // Row u of the layer, for computing the scores, and its bias. `weight` points to the row where it
  // lies, or into `own` [inputs + 1].
  struct Row {
    const Real* weight;
    Real bias;
  };
  using Read = std::function<Row(std::size_t u, Real* own)>;
  // Computes z from A [batch x inputs].
  void scores(const Real* A, const Read& read);
  // z <- d; returns the sum of the losses.
  double softmax();
  // Reads weight(u), then calls sink(u, g_l, gb_l), once for each label. Calls for different labels
  // run concurrently. Afterwards input_gradient() is valid.
  using Weight = std::function<const Real*(std::size_t u)>;
  using Sink = std::function<void(std::size_t u, const Real* gradient, Real bias_gradient)>;
  void backward(const Real* A, const Weight& weight, const Sink& sink);
  // dA [batch x inputs].
  std::span<Real> input_gradient() { return {delta_.data(), active_.size() * inputs_}; }

 private:
  template <class Fn>
  void split_labels(const Fn& fn) const;
  // fn(part, begin, end) of the batch's samples on all cores.
  template <class Fn>
  void split_samples(const Fn& fn) const;
  void number_labels();
  void sort_pairs();

  std::size_t inputs_;
  HostCores& cores_;
  std::span<const std::vector<std::uint32_t>> active_;
  std::span<const std::uint32_t> truth_;
  // pair p of label number u, begin_[u] <= p < begin_[u + 1]: its sample, and its place in z_.
  std::vector<std::uint32_t> label_;   // by number, ascending
  std::vector<std::uint32_t> begin_;   // [labels + 1]
  std::vector<std::uint32_t> sample_;  // by pair
  std::vector<std::uint32_t> place_;   // by pair
  std::vector<std::uint32_t> first_;   // [samples + 1], in z_
  std::vector<Real> z_;                // by sample and its active labels; then d
  std::vector<std::uint64_t> bits_;    // [cores x all labels], zero between batches
  std::vector<std::uint32_t> number_;  // by label, of those in the batch
  std::vector<std::uint32_t> next_;    // [cores x labels], where a core's next pair of a label goes
  std::vector<Real> delta_;            // [cores x batch x inputs]
};

using SampledSoftmax = BasicSampledSoftmax<float>;

// The softmax over true labels and random others.
template <class Real>
class BasicDrawnSoftmax {
 public:
  // A sample has `least` active labels, or its true ones if they are more.
  BasicDrawnSoftmax(std::size_t labels, std::size_t inputs, std::size_t least, HostCores& cores);

  // Begins a batch. Each sample gets its true labels and labels from a list that is drawn for the
  // batch. The list depends on the batch's rows alone, so every call about a batch uses the same
  // list.
  BasicSampledSoftmax<Real>& of(const Batch& batch);

 private:
  std::size_t labels_, least_;
  BasicSampledSoftmax<Real> softmax_;
  std::vector<std::vector<std::uint32_t>> active_;
  std::vector<std::uint32_t> truth_, list_;
  BatchRows last_;  // the batch of the last draw
};

// The seed of a batch's random labels: a function of its rows.
std::uint32_t label_seed(std::span<const Index> rows);

}  // namespace hetsgd
