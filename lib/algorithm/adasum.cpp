// Adasum (ssgd --reduce adasum): every worker's own optimizer makes an update of its gradient, and
// the updates are combined by how much they agree: orthogonal ones add up, equal ones count once.
//
// Paper:      Adasum (Maleki et al. 2021), section 4 (updates after the optimizer; inside a
//             node a mean, across nodes Adasum; optimizer state partitioned by layers), section 3.5
//             (per layer), figure 2 (orthogonality). AS itself, equations 8 and 9 and
//             algorithm 1: collective/adasum.
// Implements: inside a node of m workers   g   = sum_i (b_i / b_node) g_i
//             every node                   d_k = what its optimizer makes of w with g, less w
//             across nodes                 w  <- w + AS(d_0, d_1, ...)
// Symbols:    m --node-size, b_i worker i's part of its node's batch b_node.
// Cost:       the bytes of the all_reduce, log2 P small sums, and two passes over (P-1)/P n
//             elements for products and combinations.
// Deviations: the paper leaves open how nodes and layers are assigned. Nodes are runs of m
//             consecutive ranks; with m = 1 every worker is one. All ranks of a node have the same
//             g, d and optimizer state (replicated), or each makes the d of its own consecutive
//             layers (partitioned): AS then combines the parts of one rank of every node, and the
//             results are broadcast inside the nodes. The learning rate is that of what one
//             optimizer sees (Common rule): lr b_node/b_max for a node's part of a split batch, lr
//             for full batches. The paper compares "per layer"; here per parameter tensor by
//             default, a bias apart from its weight (--adasum-scope layer: together). Its recursion
//             wants 2^m nodes; other numbers are folded to the next smaller power of two first
//             (collective/adasum). Tensors are not fused into buckets of 64 MB, and fp16 with its
//             dynamic scaling is left out.

#include "algorithm/adasum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "collective/combine.hpp"
#include "core/error.hpp"
#include "core/options.hpp"

namespace hetsgd {

namespace {

constexpr int kTag = 0;  // the groups are this step's own, except for the one of all workers

// Offsets at which the scopes that AS compares begin, and the end. The blocks of a layer are
// neighbours and have its name before a dot: layer0.weight, layer0.bias.
std::vector<std::size_t> scope_bounds(const Layout& layout, AdasumOptions::Scope scope) {
  using Scope = AdasumOptions::Scope;
  std::vector<std::size_t> bounds;
  std::string_view last;
  for (const ParameterBlock& block : layout.blocks) {
    const std::string_view layer = std::string_view(block.name).substr(0, block.name.find('.'));
    const bool same = scope == Scope::model || (scope == Scope::layer && layer == last);
    if (bounds.empty() || !same) bounds.push_back(block.offset);
    last = layer;
  }
  bounds.push_back(layout.size);
  return bounds;
}

// Offsets at which each rank's part begins. A scope, between two `bounds`, stays whole and belongs
// to the rank in whose m-th of the vector its middle lies. So the scopes of a rank are neighbours.
std::vector<std::size_t> rank_slices(const std::vector<std::size_t>& bounds, int m) {
  const std::size_t size = bounds.back(), ranks = static_cast<std::size_t>(m);
  std::vector<std::size_t> slices(ranks + 1, size);
  for (std::size_t i = bounds.size() - 1; i-- > 0;) {
    const std::size_t twice_middle = bounds[i] + bounds[i + 1];
    const std::size_t owner =
        std::min(twice_middle * ranks / std::max<std::size_t>(2 * size, 1), ranks - 1);
    std::fill_n(slices.begin(), owner + 1, bounds[i]);
  }
  return slices;
}

}  // namespace

void AdasumOptions::declare(OptionSet& set) {
  set.add_choice("adasum_shape", shape,
                 {{"tree", AdasumShape::tree}, {"linear", AdasumShape::linear}},
                 "Order in which --reduce adasum combines workers. tree takes pairs and then pairs "
                 "of pairs, linear one worker after the other.");
  set.add_choice("adasum_scope", scope,
                 {{"tensor", Scope::tensor}, {"layer", Scope::layer}, {"model", Scope::model}},
                 "Part of the model for which --reduce adasum compares updates: each tensor, each "
                 "layer (weight with bias), or the whole model.");
  set.add("node_size", node_size,
          "Number of consecutive ranks in a node. --reduce adasum takes the mean inside a node and "
          "Adasum across nodes.")
      .unit("workers")
      .at_least(1);
  set.add_choice("optimizer_state", state,
                 {{"replicated", State::replicated}, {"partitioned", State::partitioned}},
                 "Where --reduce adasum keeps optimizer state: replicated on every worker, or "
                 "partitioned by layers over the workers of a node.");
  set.add("orthogonality_every", orthogonality_every,
          "Number of iterations between two records of the updates' orthogonality with --reduce "
          "adasum.")
      .unit("iterations")
      .range(0, kLargestRound)
      .zero_word("never");
}

void AdasumOptions::check(const Plan& plan) const {
  if (plan.workers % node_size != 0) {
    refuse("--node-size", fmt::format("{}", node_size),
           fmt::format("a divisor of --workers {}", plan.workers));
  }
  if (node_size > 1 && plan.loses_workers) {
    refuse("--on-loss", fmt::format("continue with --node-size {}", node_size), "restart",
           "the workers of a node reduce with their like in all others, which must be there");
  }
  if (state == State::replicated) return;
  if (node_size == 1) {
    refuse("--optimizer-state", "partitioned with --node-size 1",
           "a larger --node-size: the state is spread over the workers of a node");
  }
  if (scope == Scope::model) {
    refuse("--adasum-scope", "model with --optimizer-state partitioned",
           "layer or tensor, because no worker has the whole update");
  }
  if (plan.optimizer.clip_norm > 0) {
    refuse("--clip-norm",
           fmt::format("{} with --optimizer-state partitioned", plan.optimizer.clip_norm),
           "off, because no worker has the norm of the whole gradient");
  }
}

AdasumStep::AdasumStep(Worker& self, Replica& replica, const AdasumOptions& options, double weight)
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
  const std::vector<std::size_t> compared = scope_bounds(layout, o_.scope);
  if (partitioned) slices_ = rank_slices(compared, m);
  const auto slice = static_cast<std::size_t>(partitioned ? index : 0);
  begin_ = slices_[slice];
  end_ = slices_[slice + 1];

  std::vector<Tensor> tensors;
  for (Tensor layer : tensors_of(layout)) {
    if (layer.offset < begin_) ++first_tensor_;
    if (layer.offset < begin_ || layer.offset >= end_) continue;
    layer.offset -= begin_;
    tensors_.push_back(layer.offset);
    tensors.push_back(layer);
  }
  tensors_.push_back(end_ - begin_);
  if (partitioned && begin_ < end_) {
    replica.optimizer =
        make_optimizer(self.plan().optimizer, self.device(), end_ - begin_, tensors);
  }
  std::vector<std::size_t> part;  // of what is compared
  for (const std::size_t bound : compared) {
    if (bound >= begin_ && bound < end_) part.push_back(bound - begin_);
  }
  part.push_back(end_ - begin_);
  all_reduce_ = std::make_unique<AdasumAllReduce>(self.endpoint(), across_ ? *across_ : self.comm(),
                                                  part, o_.shape);
}

double AdasumStep::weight_of(Worker& self, const Batch& batch) {
  if (self.plan().equal_losses) return weight_;
  const auto mine = static_cast<double>(self.model().losses(batch));
  double all = mine;
  node_->all_reduce(std::span(&all, 1));
  return mine / all;
}

void AdasumStep::operator()(Worker& self, Replica& replica, const Batch& batch,
                            double learning_rate, std::uint64_t iteration) {
  if (node_) self.axpby(weight_of(self, batch), replica.gradient.flat, 0, mean_);
  if (o_.state == AdasumOptions::State::partitioned) {
    make_part(self, replica, learning_rate);
  } else {
    make_delta(self, replica, learning_rate);
  }
  const bool record = o_.orthogonality_every > 0 && iteration % o_.orthogonality_every == 0;
  std::vector<double> inputs;
  if (record) inputs = norms(self, part());
  (*all_reduce_)(part(), kTag, Traffic::gradients);
  if (record) record_orthogonality(self, iteration, std::move(inputs), norms(self, part()));
  if (o_.state == AdasumOptions::State::partitioned) share_parts();
  self.axpby(1, delta_, 1, replica.w);
}

// delta <- the update that this worker's optimizer makes to w.
void AdasumStep::make_delta(Worker& self, Replica& replica, double learning_rate) {
  self.copy(replica.w, delta_);
  std::swap(replica.w, delta_);  // the optimizer moves the copy
  if (node_) {
    node_->all_reduce(mean_.span(), ReduceOp::sum, Traffic::gradients);
    self.apply(replica, mean_.span(), learning_rate);
  } else {
    self.apply(replica, learning_rate);
  }
  std::swap(replica.w, delta_);
  self.axpby(-1, replica.w, 1, delta_);
}

// The same for this rank's layers alone.
void AdasumStep::make_part(Worker& self, Replica& replica, double learning_rate) {
  const HostView mean(&self.device(), HostView::Use::update, mean_.data(),
                      mean_.size() * sizeof(float), host_);
  reduce_scatter_slices(*node_, kTag, mean.floats(), slices_, scratch_, Traffic::gradients);
  mean.store();
  if (begin_ < end_) {
    const std::size_t n = end_ - begin_;
    const float* old = replica.w.data() + begin_;
    self.compute_vectors(part_passes(5 + replica.optimizer->passes()), [&] {
      Device& device = self.device();
      device.copy(n, old, part().data());
      replica.optimizer->update(device, learning_rate, mean_.span().subspan(begin_, n), part());
      device.axpby(n, -1.0F, old, 1.0F, part().data());
    });
  }
  self.count_shared_update();
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

void AdasumStep::record_orthogonality(Worker& self, std::uint64_t iteration,
                                      std::vector<double> inputs,
                                      const std::vector<double>& results) {
  (across_ ? *across_ : self.comm()).all_reduce(std::span(inputs));
  const auto& layers = self.model().layout().blocks;
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
               {"iteration", iteration},
               {"tensor", std::move(names)},
               {"value", std::move(values)}});
}

double AdasumStep::part_passes(double passes) const {
  return passes * static_cast<double>(end_ - begin_) / static_cast<double>(slices_.back());
}

}  // namespace hetsgd
