// The tensors of a training step and the steps that use them.
//
// Steps   : K nodes without the input: steps 1..K forward in the order of execution, K+1..2K
//           backward in the exact reverse.
// Tensors : F_i, the feature map of node i; G_i, the gradient of the loss by F_i, the sum over all
//           consumers of F_i; masks and statistics. Parameters, their gradients and the
//           optimizer's buffers are not part of the plan.
// In place: relu, lrn, norm, gelu and the first input of add take over the gradient of their output
//           where that input has one consumer; softmax writes its gradient into its output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/rank_index.hpp"
#include "graph/graph.hpp"
#include "graph/needs.hpp"
#include "graph/work.hpp"

namespace hetsgd {

// Whether policies treat the node as the papers' systems treat a convolution: its computation is
// long enough to hide transfers of maps.
inline bool counts_as_convolution(NodeType type) {
  return type == NodeType::conv || type == NodeType::linear || type == NodeType::attention;
}

enum class TensorKind { feature, gradient, mask };

// How a feature map comes back after the forward pass has dropped it (superneurons.hpp). no: it is
// not dropped, but kept or moved. once: it is computed once for all backward steps that read it.
// each_step: it is computed again for each of them.
enum class Remade { no, once, each_step };

struct StepTensor {
  TensorKind kind;
  int node;  // the node whose output, or whose output's gradient, this is
  std::uint64_t bytes;
  // Steps in ascending order, production included. The input's map exists before step 1, and only
  // its consumers use it.
  std::vector<int> forward_uses = {};
  std::vector<int> backward_uses = {};
  // Tensors of fc, softmax and dropout, statistics of bn, and maps that stay for them.
  bool reclaimed = false;
  // Feature maps: its last forward consumer is fc, softmax or dropout (or it has none), so that it
  // is not moved.
  bool kept = false;
  Remade remade = Remade::no;

  int first_use() const {
    return forward_uses.empty() ? backward_uses.front() : forward_uses.front();
  }
  int last_use() const {
    return backward_uses.empty() ? forward_uses.back() : backward_uses.back();
  }
};

struct Step {
  int node;
  Pass pass;
  std::vector<int> uses;      // tensors that it reads or writes, each once
  std::vector<int> reads;     // the feature maps among them that a backward step needs
  std::vector<int> produces;  // tensors whose first use this is
  std::vector<int> again;     // nodes whose maps are computed again before it, in order

  bool has_use(int tensor) const { return std::ranges::find(uses, tensor) != uses.end(); }
  bool has_read(int tensor) const { return std::ranges::find(reads, tensor) != reads.end(); }
};

struct StepOptions {
  std::int64_t batch = 1;
  BackwardNeeds needs = BackwardNeeds::cudnn;
  bool input_gradient = false;
};

// Everything about a training step that does not depend on a policy.
struct TrainingStep {
  const Graph* graph = nullptr;
  StepOptions options;
  std::vector<StepTensor> tensors;
  std::vector<Step> steps;           // [0] is unused, so that numbers match the papers
  std::vector<int> feature;          // by node: the tensor F_i
  std::vector<int> gradient;         // by node: G_i, which may be another's tensor; -1: none
  std::vector<int> mask;             // by node; -1: none
  std::vector<int> forward_step_of;  // by node; the input's is 0
  std::vector<int> convolutions;     // by forward step: heavy nodes up to it; [0] is 0

  int forward_steps() const { return static_cast<int>(steps.size() - 1) / 2; }
  int total_steps() const { return static_cast<int>(steps.size()) - 1; }
  const StepTensor& tensor(int id) const { return tensors[at(id)]; }
  const Step& step(int number) const { return steps[at(number)]; }
  const Node& node_of(const Step& step) const { return graph->node(step.node); }
  int convolutions_up_to(int step) const { return convolutions[at(step)]; }
  std::uint64_t feature_bytes() const;  // of all F
  std::uint64_t need(int step) const;   // bytes that the step uses
  // A lower bound for every plan that moves only feature maps: the most bytes that a step uses,
  // together with the gradients and masks that wait meanwhile.
  std::uint64_t lower_bound() const;
  // The same if only feature maps with `gives_way` are moved, or dropped and computed again. Takes
  // time linear in the tensors and their uses.
  std::uint64_t lower_bound(const std::function<bool(const StepTensor&)>& gives_way) const;
  std::uint64_t tensor_bytes() const;         // of all tensors, if none shared memory
  bool gives_input_gradient(int node) const;  // whether any input of the node has a gradient
};

// `graph` must outlive the result. Throws Error(data) for a batch whose maps have more than 2^60
// bytes.
TrainingStep training_step(const Graph& graph, const StepOptions& options);

// The nodes in the order of their computation: depth first from the input, which comes first. A
// join waits for its last branch, and branches come in the order of the node list. This is Dymem's
// algorithm 2, with the count of arrivals compared to the number of inputs.
std::vector<int> execution_order(const Graph& graph);

}  // namespace hetsgd
