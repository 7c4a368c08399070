#include "algorithm/adasum_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "collective/slices.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"

namespace hetsgd {

namespace {

constexpr int kTag = 0;  // the groups are this step's own, except for the one of all workers

// Where each rank's layers begin: a layer belongs to the rank in whose m-th of the vector its
// middle lies. Layers stay whole, and a rank's layers together.
std::vector<std::size_t> layer_slices(const Layout& layout, int m) {
  std::vector<std::size_t> bounds(static_cast<std::size_t>(m) + 1, layout.size);
  for (auto layer = layout.layers.rbegin(); layer != layout.layers.rend(); ++layer) {
    const std::size_t twice_middle = 2 * layer->offset + layer->size();
    const std::size_t owner = std::min(
        twice_middle * static_cast<std::size_t>(m) / std::max<std::size_t>(2 * layout.size, 1),
        static_cast<std::size_t>(m) - 1);
    std::fill_n(bounds.begin(), owner + 1, layer->offset);
  }
  return bounds;
}

// Device memory where the host reads and writes it: in place, or a copy that store() brings back.
class OnHost {
 public:
  OnHost(Device& device, std::span<float> memory, std::vector<float>& copy)
      : device_(device), memory_(memory), host_(memory) {
    if (memory.empty() || device.host_accessible(memory.data())) return;
    host_ = room(copy, memory.size());
    device.download(host_.data(), memory.data(), memory.size_bytes());
  }
  std::span<float> span() const { return host_; }
  void store() const {
    if (host_.data() == memory_.data()) return;
    device_.upload(memory_.data(), host_.data(), host_.size_bytes());
  }

 private:
  Device& device_;
  std::span<float> memory_, host_;
};

}  // namespace

void AdasumOptions::declare(OptionSet& set) {
  set.add_choice("adasum_shape", shape,
                 {{"tree", AdasumShape::tree}, {"linear", AdasumShape::linear}},
                 "reduce adasum: pairs of pairs, or one worker after the other");
  set.add_choice("adasum_scope", scope, {{"tensor", Scope::tensor}, {"model", Scope::model}},
                 "reduce adasum: what is compared, each tensor by itself or the whole model");
  set.add("node_size", node_size,
          "reduce adasum: workers of a node, consecutive ranks; mean inside, Adasum across nodes")
      .unit("workers")
      .at_least(1);
  set.add_choice("optimizer_state", state,
                 {{"replicated", State::replicated}, {"partitioned", State::partitioned}},
                 "reduce adasum: every worker's optimizer updates the whole model, or the layers "
                 "of a node are spread over its workers");
  set.add("orthogonality_every", orthogonality_every,
          "reduce adasum: record the updates' orthogonality every so many iterations; 0: never")
      .unit("iterations")
      .range(0, kLargestRound);
}

void AdasumOptions::check(const Plan& plan) const {
  if (plan.workers % node_size != 0) {
    throw with_hint(usage_error("--node-size: found {}, expected a divisor of --workers {}",
                                node_size, plan.workers),
                    "all nodes have the same number of workers");
  }
  if (state == State::replicated) return;
  if (node_size == 1) {
    throw with_hint(
        usage_error("--optimizer-state: found partitioned with --node-size 1, expected nodes of "
                    "several workers"),
        "the state is spread over the workers of one node; add for example --node-size 2");
  }
  if (scope == Scope::model) {
    throw with_hint(
        usage_error("--adasum-scope: found model with --optimizer-state partitioned, where no "
                    "worker has the whole update"),
        "use --adasum-scope tensor or --optimizer-state replicated");
  }
  if (plan.optimizer.clip_norm > 0) {
    throw with_hint(
        usage_error("--clip-norm: found {} with --optimizer-state partitioned, where no worker "
                    "has the whole gradient whose norm it bounds",
                    plan.optimizer.clip_norm),
        "use --clip-norm 0 or --optimizer-state replicated");
  }
}

AdasumStep::AdasumStep(Worker& self, const AdasumOptions& options, double weight)
    : o_(options), weight_(weight), delta_(self.vector()) {
  const Layout& layout = self.model().layout();
  const int m = o_.node_size, index = self.rank() % m;
  slices_ = {0, layout.size};
  if (m > 1) {
    node_ = self.comm().split(self.rank() / m, self.rank());
    across_ = self.comm().split(index, self.rank());
    mean_ = self.vector();
  }
  const bool partitioned = o_.state == AdasumOptions::State::partitioned;
  if (partitioned) slices_ = layer_slices(layout, m);
  const auto slice = static_cast<std::size_t>(partitioned ? index : 0);
  begin_ = slices_[slice];
  end_ = slices_[slice + 1];

  std::vector<Tensor> tensors;
  for (const LayerView& layer : layout.layers) {
    if (layer.offset < begin_) ++first_tensor_;
    if (layer.offset < begin_ || layer.offset >= end_) continue;
    tensors_.push_back(layer.offset - begin_);
    tensors.push_back({layer.offset - begin_, layer.size()});
  }
  tensors_.push_back(end_ - begin_);
  if (partitioned && begin_ < end_) {
    optimizer_ = make_optimizer(self.plan().optimizer, self.device(), end_ - begin_, tensors);
  }
  const bool whole = o_.scope == AdasumOptions::Scope::model;
  all_reduce_ = std::make_unique<AdasumAllReduce>(
      self.node(), across_ ? *across_ : self.comm(),
      whole ? std::vector<std::size_t>{0, end_ - begin_} : tensors_, o_.shape);
}

void AdasumStep::operator()(Worker& self, Gradient& g, double learning_rate, Buffer& w) {
  if (o_.node_size > 1) self.axpby(weight_, g.flat, 0, mean_);
  if (o_.state == AdasumOptions::State::partitioned) {
    make_part(self, learning_rate, w);
  } else {
    make_delta(self, g, learning_rate, w);
  }
  const bool record = o_.orthogonality_every > 0 && iteration_ % o_.orthogonality_every == 0;
  std::vector<double> inputs;
  if (record) inputs = norms(self, part());
  (*all_reduce_)(part(), kTag, Traffic::gradients);
  if (record) record_orthogonality(self, std::move(inputs), norms(self, part()));
  if (o_.state == AdasumOptions::State::partitioned) share_parts();
  self.axpby(1, delta_, 1, w);
  ++iteration_;
}

// delta <- what this worker's optimizer adds to w.
void AdasumStep::make_delta(Worker& self, Gradient& g, double learning_rate, const Buffer& w) {
  self.copy(w, delta_);
  if (node_) {
    node_->all_reduce(mean_.span(), ReduceOp::sum, Traffic::gradients);
    self.apply(mean_.span(), learning_rate, delta_);
  } else {
    self.apply(g, learning_rate, delta_);
  }
  self.axpby(-1, w, 1, delta_);
}

// The same for this rank's layers alone.
void AdasumStep::make_part(Worker& self, double learning_rate, const Buffer& w) {
  const OnHost mean(self.device(), mean_.span(), host_);
  reduce_scatter_slices(*node_, kTag, mean.span(), slices_, scratch_, Traffic::gradients);
  mean.store();
  if (optimizer_) {
    const std::size_t n = end_ - begin_;
    const float* old = w.data() + begin_;
    self.compute_vectors(part_passes(5 + optimizer_->passes()), [&] {
      Device& device = self.device();
      device.copy(n, old, part().data());
      optimizer_->update(device, learning_rate, mean_.span().subspan(begin_, n), part());
      device.axpby(n, -1.0F, old, 1.0F, part().data());
    });
  }
  self.took_update();
}

void AdasumStep::share_parts() {
  for (int r = 0; r < node_->size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    const auto layers = delta_.span().subspan(slices_[i], slices_[i + 1] - slices_[i]);
    if (!layers.empty()) node_->broadcast(layers, r, Traffic::gradients);
  }
}

std::vector<double> AdasumStep::norms(Worker& self, std::span<const float> delta) {
  std::vector<double> squared;
  self.compute_vectors(part_passes(1),
                       [&] { squared = squared_norms(self.device(), tensors_, delta); });
  return squared;
}

void AdasumStep::record_orthogonality(Worker& self, std::vector<double> inputs,
                                      const std::vector<double>& results) {
  (across_ ? *across_ : self.comm()).all_reduce(std::span(inputs));
  const auto& layers = self.model().layout().layers;
  std::vector<double> all(2 * layers.size());  // inputs and results of every layer
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    all[2 * (first_tensor_ + t)] = inputs[t];
    all[2 * (first_tensor_ + t) + 1] = results[t];
  }
  if (o_.state == AdasumOptions::State::partitioned) node_->all_reduce(std::span(all));
  if (self.rank() != 0) return;
  nlohmann::json names = nlohmann::json::array(), values = nlohmann::json::array();
  for (std::size_t t = 0; t < layers.size(); ++t) {
    names.push_back(layers[t].name);
    values.push_back(all[2 * t] > 0 ? all[2 * t + 1] / all[2 * t]
                                    : std::numeric_limits<double>::quiet_NaN());  // null
  }
  self.record({{"type", "orthogonality"},
               {"iteration", iteration_},
               {"tensor", std::move(names)},
               {"value", std::move(values)}});
}

double AdasumStep::part_passes(double passes) const {
  return passes * static_cast<double>(end_ - begin_) / static_cast<double>(slices_.back());
}

}  // namespace hetsgd
