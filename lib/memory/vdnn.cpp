// The policies `vdnn-all` (moves the inputs of all feature layers), `vdnn-conv` (of convolutions
// only), and `vdnn`.
//
// Paper      : M. Rhu and others: vDNN, MICRO 2016.
// Implements : a map moves while its last forward consumer computes; a step ends when both servers
//              are idle; backward steps fetch the maps of one earlier step each (its
//              findPrefetchLayer). `vdnn` is the dynamic policy: the first of its configurations
//              that fits.
// Deviations : a fetch that does not fit is skipped, and made when its step begins.
#include <utility>

#include "core/rank_index.hpp"
#include "memory/policy.hpp"

namespace hetsgd {
namespace {

class VdnnPolicy : public Policy {
 public:
  VdnnPolicy(const char* name, bool conv_only)
      : Policy({.name = name,
                .trigger = OffloadTrigger::last_consumer,
                .overlap = Overlap::step_barrier,
                .blocks = false}),
        conv_only_(conv_only) {}

  bool moves(const TrainingStep& training, const StepTensor& tensor) const override {
    if (!is_movable_map(tensor)) return false;
    const Step& last = training.step(tensor.forward_uses.back());
    return !conv_only_ || counts_as_convolution(training.node_of(last).type);
  }

  void search(const PlanRequest& request, int k, FetchQueue& queue) const override {
    const TrainingStep& training = *request.training;
    for (int m = k - 1; m >= 1; --m) {
      const Step& backward = training.step(training.total_steps() + 1 - m);
      bool found = false;
      for (const int map : backward.reads) {
        if (!queue.is_absent(map) || queue.was_fetched(map)) continue;
        queue.push(map);
        found = true;
      }
      if (found || counts_as_convolution(training.node_of(backward).type)) return;
    }
  }

 private:
  bool conv_only_;
};

class DynamicVdnnPolicy final : public Policy {
 public:
  DynamicVdnnPolicy() : Policy({.name = "vdnn"}) {}

  // All configurations move less, or use more workspace, than this one.
  bool moves(const TrainingStep& training, const StepTensor& tensor) const override {
    return vdnn_all_policy().moves(training, tensor);
  }
  bool fits(const PlanRequest& request) const override {
    PlanRequest trial = request;
    trial.convolution = ConvolutionMode::memory;
    return vdnn_all_policy().plan(trial).fits();
  }

  MemoryPlan plan(const PlanRequest& request) const override {
    PlanRequest trial = request;
    trial.convolution = ConvolutionMode::memory;
    MemoryPlan trainable = vdnn_all_policy().plan(trial);
    if (!trainable.fits()) return trainable;
    trial.convolution = ConvolutionMode::performance;
    for (const Policy* policy : {&liveness_policy(), &vdnn_conv_policy(), &vdnn_all_policy()}) {
      MemoryPlan plan = policy->plan(trial);
      if (plan.fits()) return plan;
    }
    for (const Policy* policy : {&vdnn_conv_policy(), &vdnn_all_policy()}) {
      if (std::optional<MemoryPlan> plan = lowered(*policy, trial)) return std::move(*plan);
    }
    return trainable;
  }

 private:
  // Lowers the algorithm of one convolution after another until the plan fits.
  static std::optional<MemoryPlan> lowered(const Policy& policy, PlanRequest trial) {
    const TrainingStep& training = *trial.training;
    const bool record = std::exchange(trial.record, false);  // only the plan that fits is recorded
    trial.lowered.assign(static_cast<std::size_t>(training.graph->size()), 0);
    for (int k = 1; k <= training.forward_steps(); ++k) {
      const int node = training.step(k).node;
      if (training.graph->node(node).type != NodeType::conv) continue;
      const auto count = static_cast<int>(
          convolution_algorithms(*training.graph, node, training.options.batch).size());
      int& level = trial.lowered[at(node)];
      while (level + 1 < count) {
        ++level;
        if (!policy.plan(trial).fits()) continue;
        trial.record = record;
        return policy.plan(trial);
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Policy& vdnn_all_policy() {
  static const VdnnPolicy kPolicy("vdnn-all", false);
  return kPolicy;
}

const Policy& vdnn_conv_policy() {
  static const VdnnPolicy kPolicy("vdnn-conv", true);
  return kPolicy;
}

const Policy& vdnn_policy() {
  static const DynamicVdnnPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
