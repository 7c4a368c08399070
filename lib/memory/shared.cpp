// Policy `shared`, as Torch and as vDNN's baseline: every feature map (relu in place), two
// gradient maps of the largest size and the largest workspace that the convolution mode asks for.
// Source: vDNN (MICRO 2016), section 2.
#include <algorithm>

#include "memory/policy.hpp"

namespace hetsgd {
namespace {

class SharedPolicy final : public Policy {
 public:
  std::string name() const override { return "shared"; }
  std::string summary() const override {
    return "every map for the whole iteration, two gradient maps, one workspace";
  }
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

}  // namespace

const Policy& shared_policy() {
  static const SharedPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
