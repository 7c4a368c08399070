// A worker's batch of an MLP with one hidden layer whose softmax runs over the active labels of each
// sample alone (SLIDE).
//
//   select   hidden layer A = relu(x W0 + b0) -> buckets of its codes -> S_i of each sample
//   learn    the active labels, as model/labels/sampled_softmax.hpp; Adam on row l, caught up before
//            layer 0 as the MLP's, Adam on the touched rows
//
// The model is memory that other workers may read and write meanwhile (algorithm/shared_model.hpp):
//
//              threads, in place (racy)          sim: read, fn, write
//   select     catch up, then fn on w itself     catch up and copy layer 0's rows; fn; -
//   learn      catching up and Adam on a row     catch up and copy the labels' rows; fn makes
//              as soon as its gradient is due    gradients; catch up and Adam on all rows
//   index      of w itself                       catch up and copy the layer; fn; -
//
// In sim a batch lands whole at its end, and t counts batches in the order of landing. One worker
// gets the same bits either way. What races stands in sampled_mlp_racy.cpp. No number that is read
// from w becomes an index or a length there but for codes, which are below m whatever was read.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "algorithm/parts/sampled_state.hpp"
#include "linalg/sparse_kernels.hpp"
#include "model/labels/label_tables.hpp"
#include "model/labels/sampled_softmax.hpp"

namespace hetsgd {

// How well hash tables find labels (slide), as an event of the record.

// Where the tables lead on samples of a test set.
struct ProbedRecall {
  static constexpr std::size_t kBest[] = {1, 5, 10};
  std::uint64_t samples = 0;
  std::uint64_t retrieved = 0;
  std::uint64_t found[std::size(kBest)] = {};  // of the labels with the k highest scores, retrieved
  std::uint64_t best[std::size(kBest)] = {};   // and their number
};

// Event "recall": of the probed samples, for each k, the share of the best labels that the tables
// hold, beside that of as many labels by chance; and of training since the last one (`learnt`).
nlohmann::json recall_event(std::uint64_t samples, std::size_t labels, const ProbedRecall& probed,
                            const Retrieval& learnt);

class SampledMlp {
 public:
  // On a CPU; all outlive it. charged: the model that a batch is charged for.
  SampledMlp(const Model& model, const Model& charged, Device& device, SampledState& state);

  // The tables that select() goes by: null where all labels are active.
  void take(std::shared_ptr<const LabelIndex> index) { index_ = std::move(index); }

  // w [n], here and below, is the shared model.
  void read_features(const Batch& batch, std::span<float> w);
  void select(const Batch& batch);
  void select_in_place(const Batch& batch, std::span<float> w);

  // learn() returns the mean loss over the active labels.
  void read_labels(std::span<float> w);
  double learn(const Batch& batch);
  void write(double learning_rate, std::span<float> w);
  double learn_in_place(const Batch& batch, double learning_rate, std::span<float> w);

  void read_index(std::span<float> w);
  LabelTables index(const SampledState::Rehash& rehash);
  LabelTables index_in_place(const SampledState::Rehash& rehash, std::span<float> w);

  // All rows make up for what they owe: before w is read by others.
  void catch_up_all(std::span<float> w);

  // What the tables hold of the best labels of these samples, of a model that is caught up.
  ProbedRecall probe(const Batch& samples, std::span<const float> w);

  // What they cost, in floating-point operations, bytes and launches. `batch` is as it is charged, that
  // of learn() the one selected last. A larger model is charged for as large a share of its labels as
  // the tables have led to here.
  Work select_work(const BatchShape& batch) const;
  Work learn_work(const BatchShape& batch) const;
  Work index_work() const;
  Work catch_up_work() const;

  // Of the batch selected last, by sample: active labels, and how many of them tables led to.
  std::size_t active(std::size_t i) const { return active_[i].size(); }
  std::size_t retrieved(std::size_t i) const { return retrieved_[i]; }
  const Retrieval& retrieval() const { return retrieval_; }

 private:
  // fn(part, begin, end) of 0 .. n on all cores.
  template <class Fn>
  void split(std::size_t n, const Fn& fn) const {
    const std::size_t parts = cores_.count();
    cores_.run(parts,
               [&](std::size_t part) { fn(part, n * part / parts, n * (part + 1) / parts); });
  }
  // From layer 0 [features x H] with its bias, in this order.
  void select_from(const Batch& batch, const float* w0);
  void activate(const Batch& batch, const float* w0);
  void backward_layer0(const Batch& batch);
  // The rows' steps, caught up before, of touched features; layer 0's bias.
  void step_layer0(const AdamDebts& debts, const AdamBatch& step, std::span<float> w);
  void step_the_rest(const AdamBatch& step, std::span<float> w);
  // Asks memory for the row of the i-th touched feature, if there is one.
  void ask_for_feature(std::size_t i, std::span<const float> w) const;
  LabelTables index_of(const SampledState::Rehash& rehash, const float* W) const;
  SparseRows<float> features(const Batch& batch) const;
  // What a batch costs by: pairs, active labels, touched features, entries of buckets.
  struct Counts {
    double pairs, labels, features, entries;
  };
  Counts counts(const BatchShape& batch) const;

  const Model& model_;
  Device& device_;
  SampledState& state_;
  const SampledShape& shape_;
  const SampledShape charged_;
  HostCores& cores_;
  SparseKernels& sparse_;
  std::unique_ptr<ModelContext> context_;
  TouchedRows features_;
  std::shared_ptr<const LabelIndex> index_;
  SampledSoftmax softmax_;
  std::uint64_t selection_ = 0;  // number of the batch, among all workers

  std::vector<ActiveLabels> active_scratch_;         // by core
  std::vector<std::vector<std::uint32_t>> active_;   // by sample
  std::vector<std::uint32_t> truth_, retrieved_;     // by sample
  Retrieval retrieval_;                              // of the batch
  std::vector<std::uint32_t> buckets_;               // [batch x L]
  std::vector<Index> touched_;                       // layer 0's rows
  std::vector<float> activation_, layer0_gradient_;  // [batch x H], [features x H], zero between
  std::vector<float> bias0_gradient_;                // [H]
  // sim: layer 0 with its bias; rows of active labels, their biases and gradients; the output layer.
  std::vector<float> own_layer0_, own_rows_, own_bias_, row_gradient_, bias_gradient_, own_layer_;
};

}  // namespace hetsgd
