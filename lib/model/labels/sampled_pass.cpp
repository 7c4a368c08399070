#include "model/labels/sampled_pass.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace hetsgd {

namespace {

const Layout& one_hidden_layer(const Model& model) {
  const Layout& layout = model.layout();
  const bool fits = layout.blocks.size() == 4 && layout.blocks[0].name == "layer0.weight" &&
                    layout.blocks[2].name == "layer1.weight" && layout.blocks[2].rows > 1 &&
                    model.data().task != Task::binary;
  if (!fits) {
    refuse("--model", "a model without exactly one hidden layer below a softmax",
           "an mlp over several labels, which slide samples",
           "use --model mlp --hidden 128, and data with several labels");
  }
  if (model.hashed_labels() == nullptr) {
    refuse("--objective", layout.blocks[2].row_sparse() ? "sampled" : "full",
           "hashed with --algorithm slide", "leave it out: hashed is the default of slide");
  }
  return layout;
}

}  // namespace

SampledShape::SampledShape(const Model& model)
    : features(one_hidden_layer(model).blocks[0].rows),
      hidden(model.layout().blocks[0].cols),
      labels(model.layout().blocks[2].rows),
      bias0(model.layout().blocks[1].offset),
      weight(model.layout().blocks[2].offset),
      bias(model.layout().blocks[3].offset) {}

SampledPass::SampledPass(const Model& model, const Model& charged, Device& device,
                         const ActiveOptions& options, std::uint64_t seed)
    : model_(model),
      device_(device),
      shape_(model),
      charged_(charged),
      options_(options),
      hashing_(*model.hashed_labels()),
      seed_(seed),
      cores_(kernels<BasicHostCores<float>>(device)),
      sparse_(kernels<SparseKernels>(device)),
      context_(model.make_context(device)),
      features_(static_cast<Index>(shape_.features)),
      sets_(options, shape_.labels, shape_.hidden, seed, cores_),
      softmax_(shape_.labels, shape_.hidden, cores_),
      layer0_gradient_(shape_.features * shape_.hidden),
      bias0_gradient_(shape_.hidden) {}

SparseRows<float> SampledPass::features(const Batch& batch) const {
  const Dataset& data = batch.data();
  return device_.stage({batch.size(), data.feature_count, batch.rows().data(),
                        data.sparse.begin.data(), data.sparse.index.data(),
                        data.sparse.value.data()});
}

std::span<const Index> SampledPass::touch(const Batch& batch) {
  features_.collect(batch, touched_);
  return touched_;
}

void SampledPass::activate(const Batch& batch, const float* w0) {
  activation_.resize(batch.size() * shape_.hidden);
  sparse_.forward(features(batch), shape_.hidden, w0, w0 + shape_.bias0, true, activation_.data());
}

void SampledPass::select(const Batch& batch, const float* w0, const LabelIndex* index,
                         std::uint64_t t) {
  activate(batch, w0);
  sets_.find(batch, activation_.data(), index, t);
  softmax_.begin(sets_.active(), sets_.truth());
}

double SampledPass::learn(const Batch& batch, const SampledSoftmax::Read& read,
                          const SampledSoftmax::Weight& weight, const SampledSoftmax::Sink& sink) {
  softmax_.scores(activation_.data(), read);
  const double loss = softmax_.softmax();
  softmax_.backward(activation_.data(), weight, sink);
  // dA <- the gradient before the ReLU, then layer 0's gradient.
  const std::span<float> delta = softmax_.input_gradient();
  split(delta.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) delta[i] = activation_[i] > 0 ? delta[i] : 0;
  });
  sparse_.update(features(batch), shape_.hidden, 1, delta.data(), layer0_gradient_.data());
  std::ranges::fill(bias0_gradient_, 0.0F);
  device_.column_sums(batch.size(), shape_.hidden, 1, delta.data(), bias0_gradient_.data());
  return loss / static_cast<double>(batch.size());
}

ProbedRecall SampledPass::probe(const Batch& samples, std::span<const float> w,
                                const LabelIndex& index) {
  const std::size_t n = samples.size(), tables = index.tables.tables();
  const std::size_t k = std::min(ProbedRecall::kBest[2], shape_.labels);
  std::vector<std::uint32_t> best(n * k), buckets(n * tables), led_to;
  model_.rank(*context_, samples, w.data(), k, best.data());
  activate(samples, w.data());
  index.hash->queries(n, activation_.data(), buckets.data(), tables, 1);
  ActiveLabels labels({.least = 0}, shape_.labels, seed_);
  ProbedRecall recall;
  for (std::size_t i = 0; i < n; ++i) {
    led_to.clear();
    labels.append(&index.tables, 0, {}, {&buckets[i * tables], tables}, led_to);
    std::ranges::sort(led_to);
    recall.count(led_to, {&best[i * k], k});
  }
  return recall;
}

Work SampledPass::select_work(const BatchShape& batch) const {
  const double B = batch.samples, z = batch.nonzeros, H = static_cast<double>(shape_.hidden);
  return Work{2 * z * H, 8 * z + 4 * z * H, 2} + hashing_.query_work(B, H);
}

// If each of B samples retrieves a share rho of all N labels, the batch retrieves N (1 - (1 -
// rho)^B).
SampledPass::Counts SampledPass::counts(const BatchShape& batch) const {
  const Retrieval& retrieval = sets_.retrieval();
  const Counts real{.pairs = static_cast<double>(softmax_.pairs()),
                    .labels = static_cast<double>(labels().size()),
                    .features = static_cast<double>(touched_.size()),
                    .entries = static_cast<double>(retrieval.probed)};
  if (charged_.labels == shape_.labels && charged_.features == shape_.features) return real;
  const double B = batch.samples, N = static_cast<double>(charged_.labels);
  const double n = static_cast<double>(shape_.labels);
  const double least = options_.all ? N : std::min<double>(options_.least, N);
  const double rho = static_cast<double>(retrieval.retrieved) / (B * n);
  const double all_features = static_cast<double>(charged_.features);
  const double features = static_cast<double>(shape_.features);
  return {.pairs = batch.labels + B * std::max(rho * N, least),
          .labels = std::min(N, N * (1 - std::pow(1 - rho, B)) + least + batch.labels),
          .features = std::min(all_features, real.features * all_features / features),
          .entries = real.entries * N / n};
}

Work SampledPass::learn_work(const BatchShape& batch) const {
  const double B = batch.samples, z = batch.nonzeros, H = static_cast<double>(shape_.hidden);
  const auto [Q, U, R0, E] = counts(batch);
  const double probes = 4 * (B * hashing_.hash.tables + E);
  return {2 * z * H + B * H + 12 * R0 * H + 6 * Q * H + 5 * Q + 12 * U * H,
          8 * z + 8 * z * H + 24 * R0 * H + 4 * (7 * U * H + 3 * Q + 4 * B * H) + probes, 6};
}

Work SampledPass::index_work() const {
  return hashing_.table_work(static_cast<double>(shape_.labels),
                             static_cast<double>(shape_.hidden));
}

}  // namespace hetsgd
