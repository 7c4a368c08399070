// The list of policies, and the policies that serve as baselines.
//
//   none        every feature map, gradient and mask has memory of its own for the whole iteration
//   shared      as Torch and as vDNN's baseline: every feature map (relu in place), two gradient
//               maps of the largest size and the largest workspace that the convolution mode asks
//               for. Source: vDNN (MICRO 2016), section 2.
//   liveness    a tensor has memory from its first to its last use, best fit, and stays on the
//               device. Source: SuperNeurons (PPoPP 2018), section 3.2.
//   sequential  vdnn-all on one server, without prefetch: the times of computing and of transfers
//               add up. The baseline of Dymem, figure 4.6.
#include "memory/policy.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

class NonePolicy final : public Policy {
 public:
  NonePolicy() : Policy({.name = "none"}) {}
  std::optional<std::uint64_t> total_bytes(const PlanRequest& request) const override {
    return request.training->tensor_bytes();
  }
};

class SharedPolicy final : public Policy {
 public:
  SharedPolicy() : Policy({.name = "shared"}) {}
  std::optional<std::uint64_t> total_bytes(const PlanRequest& request) const override {
    const TrainingStep& training = *request.training;
    const Graph& graph = *training.graph;
    std::uint64_t maps = 0, largest = 0, workspace = 0;
    for (const StepTensor& tensor : training.tensors) {
      const bool in_place =
          tensor.kind == TensorKind::feature && graph.node(tensor.node).type == NodeType::relu;
      if (tensor.kind != TensorKind::gradient && !in_place) maps += tensor.bytes;
      if (tensor.kind == TensorKind::gradient) largest = std::max(largest, tensor.bytes);
    }
    if (request.convolution != ConvolutionMode::memory) {
      for (int node = 1; node < graph.size(); ++node) {
        if (graph.node(node).type != NodeType::conv) continue;
        workspace = std::max(
            workspace,
            convolution_algorithms(graph, node, training.options.batch).front().workspace_bytes);
      }
    }
    return maps + 2 * largest + workspace;
  }
};

class SequentialPolicy final : public Policy {
 public:
  SequentialPolicy()
      : Policy({.name = "sequential",
                .trigger = OffloadTrigger::last_consumer,
                .overlap = Overlap::none}) {}
  bool moves(const TrainingStep&, const StepTensor& tensor) const override {
    return is_movable_map(tensor);
  }
};

}  // namespace

const Policy& none_policy() {
  static const NonePolicy kPolicy;
  return kPolicy;
}

const Policy& shared_policy() {
  static const SharedPolicy kPolicy;
  return kPolicy;
}

const Policy& liveness_policy() {
  static const Policy kPolicy({.name = "liveness"});
  return kPolicy;
}

const Policy& sequential_policy() {
  static const SequentialPolicy kPolicy;
  return kPolicy;
}

MemoryPlan Policy::plan(const PlanRequest& request) const { return run_timeline(*this, request); }

const std::vector<const Policy*>& all_policies() {
  static const std::vector<const Policy*> kPolicies{
      &none_policy(),       &shared_policy(),       &liveness_policy(),
      &vdnn_all_policy(),   &vdnn_conv_policy(),    &vdnn_policy(),
      &sequential_policy(), &superneurons_policy(), &dymem_policy()};
  return kPolicies;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Policy* policy : all_policies()) names.push_back(policy->name());
  return names;
}

const Policy& find_policy(const std::string& option, const std::string& name) {
  const auto found = std::ranges::find(all_policies(), name, &Policy::name);
  if (found != all_policies().end()) return **found;
  const std::vector<std::string> names = policy_names();
  refuse(option, quote(name), alternatives(names), did_you_mean(name, names));
}

}  // namespace hetsgd
