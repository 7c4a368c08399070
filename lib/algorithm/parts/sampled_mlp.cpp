#include "algorithm/parts/sampled_mlp.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hetsgd {

SampledMlp::SampledMlp(const Model& model, const Model& charged, Device& device,
                       SampledState& state)
    : model_(model),
      device_(device),
      state_(state),
      shape_(state.shape()),
      charged_(charged),
      cores_(kernels<BasicHostCores<float>>(device)),
      sparse_(kernels<SparseKernels>(device)),
      context_(model.make_context(device)),
      features_(shape_.features),
      softmax_(shape_.labels, shape_.hidden, cores_),
      layer0_gradient_(shape_.features * shape_.hidden),
      bias0_gradient_(shape_.hidden) {
  for (std::size_t core = 0; core < cores_.count(); ++core) {
    active_scratch_.emplace_back(state.options().active, shape_.labels, state.seed());
  }
}

SparseRows<float> SampledMlp::features(const Batch& batch) const {
  const Dataset& data = batch.data();
  return device_.stage({batch.size(), data.feature_count, batch.rows().data(),
                        data.sparse.begin.data(), data.sparse.index.data(),
                        data.sparse.value.data()});
}

void SampledMlp::activate(const Batch& batch, const float* w0) {
  const std::size_t H = shape_.hidden;
  activation_.resize(batch.size() * H);
  sparse_.forward(features(batch), H, w0, w0 + shape_.bias0, true, activation_.data());
}

// --- select --------------------------------------------------------------------------------------

void SampledMlp::read_features(const Batch& batch, std::span<float> w) {
  const std::size_t H = shape_.hidden;
  const AdamDebts debts = state_.clock.debts();
  selection_ = state_.count_selection();
  own_layer0_.resize(shape_.bias0 + H);
  features_.collect(batch, touched_);
  split(touched_.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float* const row = &w[touched_[i] * H];
      state_.layer0.catch_up(debts, touched_[i], row);
      std::copy_n(row, H, &own_layer0_[touched_[i] * H]);
    }
  });
  std::copy_n(&w[shape_.bias0], H, &own_layer0_[shape_.bias0]);
}

void SampledMlp::select(const Batch& batch) { select_from(batch, own_layer0_.data()); }

void SampledMlp::select_from(const Batch& batch, const float* w0) {
  const std::size_t n = batch.size(), tables = state_.hashing().hash.tables;
  activate(batch, w0);
  buckets_.resize(n * tables);
  active_.resize(n);
  truth_.resize(n);
  retrieved_.resize(n);
  std::vector<Retrieval> found(cores_.count());
  split(n, [&](std::size_t part, std::size_t begin, std::size_t end) {
    ActiveLabels& labels = active_scratch_[part];
    labels.begin_batch(selection_);
    if (index_) {
      found[part].blind = index_->hash->queries(end - begin, &activation_[begin * shape_.hidden],
                                                &buckets_[begin * tables], tables, 1);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const auto truth = batch.data().targets.indices(batch.rows()[i]);
      active_[i].clear();
      const Retrieval one =
          labels.append(index_ ? &index_->tables : nullptr, static_cast<std::uint32_t>(i), truth,
                        {&buckets_[i * tables], tables}, active_[i]);
      truth_[i] = static_cast<std::uint32_t>(truth.size());
      retrieved_[i] = static_cast<std::uint32_t>(one.retrieved);
      found[part] += one;
    }
  });
  retrieval_ = {};
  for (const Retrieval& each : found) retrieval_ += each;
  softmax_.begin(active_, truth_);
}

// --- learn ---------------------------------------------------------------------------------------

void SampledMlp::read_labels(std::span<float> w) {
  const std::span<const std::uint32_t> labels = softmax_.labels();
  const std::size_t H = shape_.hidden;
  const AdamDebts debts = state_.clock.debts();
  own_rows_.resize(labels.size() * H);
  own_bias_.resize(labels.size());
  for (std::size_t u = 0; u < labels.size(); ++u) {
    float* const row = &w[shape_.weight + labels[u] * H];
    float* const bias = &w[shape_.bias + labels[u]];
    state_.rows.catch_up(debts, labels[u], row);
    state_.bias.catch_up(debts, labels[u], bias);
    std::copy_n(row, H, &own_rows_[u * H]);
    own_bias_[u] = *bias;
  }
}

double SampledMlp::learn(const Batch& batch) {
  const std::size_t H = shape_.hidden;
  row_gradient_.resize(own_rows_.size());
  bias_gradient_.resize(own_bias_.size());
  const SampledSoftmax::Rows rows{own_rows_.data(), own_bias_.data(), true};
  softmax_.scores(activation_.data(), rows);
  const double loss = softmax_.softmax();
  softmax_.backward(activation_.data(), rows, [&](std::size_t u, const float* g, float gb) {
    std::copy_n(g, H, &row_gradient_[u * H]);
    bias_gradient_[u] = gb;
  });
  backward_layer0(batch);
  return loss / static_cast<double>(batch.size());
}

// What others have ended meanwhile these rows owe, too.
void SampledMlp::write(double learning_rate, std::span<float> w) {
  const std::span<const std::uint32_t> labels = softmax_.labels();
  const std::size_t H = shape_.hidden;
  const AdamDebts debts = state_.clock.debts();
  const AdamBatch step = state_.clock.begin(learning_rate);
  for (std::size_t u = 0; u < labels.size(); ++u) {
    float* const row = &w[shape_.weight + labels[u] * H];
    float* const bias = &w[shape_.bias + labels[u]];
    state_.rows.catch_up(debts, labels[u], row);
    state_.bias.catch_up(debts, labels[u], bias);
    state_.rows.step(step, labels[u], &row_gradient_[u * H], row);
    state_.bias.step(step, labels[u], &bias_gradient_[u], bias);
  }
  step_layer0(debts, step, w);
  step_the_rest(step, w);
  state_.clock.end(step);
}

// dA <- that before the ReLU, then layer 0's gradient.
void SampledMlp::backward_layer0(const Batch& batch) {
  const std::span<float> delta = softmax_.input_gradient();
  split(delta.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) delta[i] = activation_[i] > 0 ? delta[i] : 0;
  });
  sparse_.update(features(batch), shape_.hidden, 1, delta.data(), layer0_gradient_.data());
  std::ranges::fill(bias0_gradient_, 0.0F);
  device_.column_sums(batch.size(), shape_.hidden, 1, delta.data(), bias0_gradient_.data());
}

// --- tables --------------------------------------------------------------------------------------

void SampledMlp::read_index(std::span<float> w) {
  catch_up_all(w);
  const auto layer = w.subspan(shape_.weight, shape_.labels * shape_.hidden);
  own_layer_.assign(layer.begin(), layer.end());
}

LabelTables SampledMlp::index_of(const SampledState::Rehash& rehash, const float* W) const {
  return {*rehash.hash,  shape_.labels, W,     state_.hashing().bucket,
          state_.seed(), rehash.number, cores_};
}

LabelTables SampledMlp::index(const SampledState::Rehash& rehash) {
  const std::vector<float> layer = std::exchange(own_layer_, {});
  return index_of(rehash, layer.data());
}

ProbedRecall SampledMlp::probe(const Batch& samples, std::span<const float> w) {
  const std::size_t n = samples.size(), tables = state_.hashing().hash.tables;
  const std::size_t k = std::min(ProbedRecall::kBest[2], shape_.labels);
  std::vector<std::uint32_t> best(n * k), buckets(n * tables), led_to;
  model_.rank(*context_, samples, w.data(), k, best.data());
  activate(samples, w.data());
  index_->hash->queries(n, activation_.data(), buckets.data(), tables, 1);
  ProbedRecall recall{.samples = n};
  ActiveLabels& labels = active_scratch_.front();
  for (std::size_t i = 0; i < n; ++i) {
    led_to.clear();
    // No label is taken for true: those that tables lead to stand first.
    const Retrieval one = labels.append(&index_->tables, static_cast<std::uint32_t>(i), {},
                                        {&buckets[i * tables], tables}, led_to);
    led_to.resize(std::min<std::size_t>(led_to.size(), one.retrieved));
    std::ranges::sort(led_to);
    recall.retrieved += led_to.size();
    for (std::size_t rank = 0; rank < k; ++rank) {
      const bool is_found = std::ranges::binary_search(led_to, best[i * k + rank]);
      for (std::size_t c = 0; c < std::size(ProbedRecall::kBest); ++c) {
        if (rank >= ProbedRecall::kBest[c]) continue;
        ++recall.best[c];
        recall.found[c] += is_found ? 1 : 0;
      }
    }
  }
  return recall;
}

// --- work ----------------------------------------------------------------------------------------

Work SampledMlp::select_work(const BatchShape& batch) const {
  const double B = batch.samples, z = batch.nonzeros, H = static_cast<double>(shape_.hidden);
  return Work{2 * z * H, 8 * z + 4 * z * H, 2} + state_.hashing().query_work(B, H);
}

// A share rho of all labels retrieved by each of B samples: N (1 - (1 - rho)^B) by any of them.
SampledMlp::Counts SampledMlp::counts(const BatchShape& batch) const {
  const Counts real{.pairs = static_cast<double>(softmax_.pairs()),
                    .labels = static_cast<double>(softmax_.labels().size()),
                    .features = static_cast<double>(touched_.size()),
                    .entries = static_cast<double>(retrieval_.probed)};
  if (charged_.labels == shape_.labels && charged_.features == shape_.features) return real;
  const double B = batch.samples, N = static_cast<double>(charged_.labels);
  const double n = static_cast<double>(shape_.labels);
  const ActiveOptions& active = state_.options().active;
  const double least = active.all ? N : std::min<double>(active.least, N);
  const double rho = static_cast<double>(retrieval_.retrieved) / (B * n);
  const double all_features = static_cast<double>(charged_.features);
  const double features = static_cast<double>(shape_.features);
  return {.pairs = batch.labels + B * std::max(rho * N, least),
          .labels = std::min(N, N * (1 - std::pow(1 - rho, B)) + least + batch.labels),
          .features = std::min(all_features, real.features * all_features / features),
          .entries = real.entries * N / n};
}

Work SampledMlp::learn_work(const BatchShape& batch) const {
  const double B = batch.samples, z = batch.nonzeros, H = static_cast<double>(shape_.hidden);
  const auto [Q, U, R0, E] = counts(batch);
  const double probes = 4 * (B * state_.hashing().hash.tables + E);
  return {2 * z * H + B * H + 12 * R0 * H + 6 * Q * H + 5 * Q + 12 * U * H,
          8 * z + 8 * z * H + 24 * R0 * H + 4 * (7 * U * H + 3 * Q + 4 * B * H) + probes, 6};
}

Work SampledMlp::index_work() const {
  return state_.hashing().table_work(static_cast<double>(shape_.labels),
                                     static_cast<double>(shape_.hidden));
}

// A look at each row's last batch, and three numbers read and written for each that owes.
Work SampledMlp::catch_up_work() const {
  const AdamDebts debts = state_.clock.debts();
  std::size_t rows = 0;
  for (std::size_t l = 0; l < shape_.labels; ++l) rows += state_.rows.owes(debts, l) ? 1 : 0;
  for (std::size_t f = 0; f < shape_.features; ++f) rows += state_.layer0.owes(debts, f) ? 1 : 0;
  const double numbers = static_cast<double>(rows) * static_cast<double>(shape_.hidden);
  return {10 * numbers, 24 * numbers + 4 * static_cast<double>(shape_.labels + shape_.features), 1};
}

nlohmann::json recall_event(std::uint64_t samples, std::size_t labels, const ProbedRecall& probed,
                            const Retrieval& learnt) {
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const auto all = static_cast<double>(labels);
  nlohmann::json recall = nlohmann::json::array();
  for (std::size_t c = 0; c < std::size(ProbedRecall::kBest); ++c) {
    recall.push_back(ratio(probed.found[c], probed.best[c]));
  }
  return {{"type", "recall"},
          {"samples", samples},
          {"probed", probed.samples},
          {"k", ProbedRecall::kBest},
          {"recall", recall},
          {"random", ratio(probed.retrieved, probed.samples) / all},
          {"retrieved", ratio(probed.retrieved, probed.samples)},
          {"train_recall", ratio(learnt.found, learnt.labels)},
          {"train_random", ratio(learnt.retrieved, learnt.samples) / all},
          {"train_retrieved", ratio(learnt.retrieved, learnt.samples)},
          {"train_entries", ratio(learnt.probed, learnt.samples)},
          {"train_blind", learnt.blind}};
}

}  // namespace hetsgd
