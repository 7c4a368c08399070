// A batch of an MLP with one hidden layer whose softmax runs over the active labels of each sample
// alone (SLIDE), label by label: no race, no lock, and the same bits each time.
//
//   select   hidden layer A = relu(x W0 + b0) -> buckets of its codes -> S_i of each sample
//   learn    labels' turn    z_il = W_l . A_i + b_l              rows of W caught up before
//            samples' turn   p_i = softmax over S_i;  d_il = (p_il - [l in Y_i] / |Y_i|) / B
//            labels' turn    g_l = sum_i d_il A_i;  dA_i += d_il W_l;  Adam on row l at once
//            layer 0         as the MLP's, Adam on the touched rows
//
// The device's cores share the labels by equal numbers of (label, sample) pairs; each has a dA of
// its own, and these are added in the order of cores.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "algorithm/parts/sampled_options.hpp"
#include "linalg/sparse_kernels.hpp"
#include "model/model.hpp"

namespace hetsgd {

class SampledMlp {
 public:
  // Of an MLP with one hidden layer, on a CPU. Both outlive it. Optimizer: adam or sgd. Errors:
  // usage, another model, or hash functions that its hidden layer is too narrow for.
  SampledMlp(const Model& model, Device& device, const SampledOptions& options,
             const OptimizerOptions& optimizer, std::uint64_t seed);
  ~SampledMlp();

  // The tables are to be made anew before the next batch: at the start, and by the schedule.
  bool rehash_due() const { return !options_.active.all && clock_.complete() >= next_rehash_; }
  // w [n], here and below, is the model in host memory.
  void rehash(float* w);
  // The two halves of a batch. learn() returns the mean loss over the active labels.
  void select(const Batch& batch, float* w);
  double learn(const Batch& batch, double learning_rate, float* w);
  // All rows make up for what they owe: before w is read by others.
  void catch_up_all(float* w);

  // What they cost, in floating-point operations, bytes and launches. That of learn() is known after
  // select().
  Work select_work(const BatchShape& batch) const;
  Work learn_work(const BatchShape& batch) const;
  Work rehash_work() const;

  // Labels that are active for sample i of the batch selected last.
  std::span<const std::uint32_t> active(std::size_t i) const { return active_[i]; }
  // What the tables have led to since the last call.
  Retrieval take_retrieval() { return std::exchange(retrieval_, {}); }
  std::uint32_t rehashes() const { return rehashes_; }
  bool rebuilt() const { return rebuilt_; }  // the last rehash has taken new functions

 private:
  struct Pairs;  // of the batch: label -> samples
  template <class Fn>
  void split(std::size_t n, const Fn& fn) const;
  template <class Fn>
  void split_labels(const Fn& fn) const;
  void number_labels();
  void scores(float* w);
  double softmax(const Batch& batch);
  void update_labels(float* w);
  void update_layer0(const Batch& batch, float* w);
  void step_the_rest(float* w);
  SparseRows<float> features(const Batch& batch) const;

  const Model& model_;
  Device& device_;
  SampledOptions options_;
  std::uint64_t seed_;
  HostCores& cores_;
  SparseKernels& sparse_;
  std::unique_ptr<ModelContext> context_;
  std::size_t features_, hidden_, labels_;
  std::size_t bias0_, weight_, bias_;  // offsets in w; layer 0's weight is at 0

  AdamClock clock_;
  RowAdam layer0_, bias0_adam_, rows_adam_, bias_adam_;
  std::optional<LabelHash> hash_;
  std::unique_ptr<const LabelTables> tables_;
  double next_rehash_ = 0;
  std::uint32_t rehashes_ = 0, generation_ = 0;
  bool rebuilt_ = false;
  Retrieval retrieval_;
  std::uint64_t probed_ = 0;  // by the batch

  std::vector<ActiveLabels> active_scratch_;        // by core
  std::vector<std::vector<std::uint32_t>> active_;  // by sample
  std::vector<std::uint32_t> buckets_;              // [batch x L]
  std::vector<std::vector<Index>> touched_;         // layer 0's rows
  std::unique_ptr<Pairs> pairs_;
  std::vector<float> activation_, layer0_gradient_;  // [batch x H], [features x H], zero between
  std::vector<float> delta_;                         // [cores x batch x H]
};

}  // namespace hetsgd
