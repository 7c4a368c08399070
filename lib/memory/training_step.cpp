#include "memory/training_step.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

bool is_reclaimed_type(NodeType type) {
  return type == NodeType::fc || type == NodeType::softmax || type == NodeType::dropout;
}

class StepBuilder {
 public:
  StepBuilder(const Graph& graph, const StepOptions& options) : graph_(graph) {
    result_.graph = &graph;
    result_.options = options;
    const auto nodes = static_cast<std::size_t>(graph.size());
    result_.feature.resize(nodes);
    result_.forward_step_of.resize(nodes);
    result_.mask.assign(nodes, -1);
    result_.gradient.assign(nodes, -1);
    order_ = execution_order(graph);
  }

  TrainingStep build() {
    add_features();
    for (int node = graph_.size() - 1; node > 0; --node) add_gradients_of_inputs(node);
    const int forward = graph_.size() - 1;
    result_.convolutions = {0};
    result_.steps.resize(static_cast<std::size_t>(2 * forward) + 1);
    for (int k = 1; k <= forward; ++k) {
      const int node = order_[at(k)];
      result_.forward_step_of[at(node)] = k;
      const bool counts = counts_as_convolution(graph_.node(node).type);
      result_.convolutions.push_back(result_.convolutions.back() + (counts ? 1 : 0));
      forward_step(k, node);
    }
    for (int k = forward + 1; k <= 2 * forward; ++k) {
      backward_step(k, order_[at(2 * forward + 1 - k)]);
    }
    mark_kept();
    return std::move(result_);
  }

 private:
  std::uint64_t map_bytes(int node) const {
    return static_cast<std::uint64_t>(result_.options.batch * graph_.node(node).shape.numbers() *
                                      kNumberBytes);
  }

  int add_tensor(TensorKind kind, int node, std::uint64_t bytes) {
    StepTensor tensor{.kind = kind, .node = node, .bytes = bytes};
    tensor.reclaimed = is_reclaimed_type(graph_.node(node).type);
    result_.tensors.push_back(std::move(tensor));
    return static_cast<int>(result_.tensors.size()) - 1;
  }

  void add_features() {
    for (int node = 0; node < graph_.size(); ++node) {
      const auto place = at(node);
      result_.feature[place] = add_tensor(TensorKind::feature, node, map_bytes(node));
      const NodeNeeds needs =
          backward_needs(graph_, node, result_.options.batch, result_.options.needs);
      if (needs.mask == 0) continue;
      result_.mask[place] =
          add_tensor(TensorKind::mask, node, static_cast<std::uint64_t>(needs.mask));
      if (needs.statistics) result_.tensors.back().reclaimed = true;
    }
  }

  // Must be called for users before inputs, so that the gradient of the node's output has its
  // tensor.
  void add_gradients_of_inputs(int node) {
    for (const int from : graph_.node(node).from) {
      int& gradient = result_.gradient[at(from)];
      if (gradient >= 0 || (from == 0 && !result_.options.input_gradient)) continue;
      // If this node is the only consumer, it decides. Else the sum has a buffer of its own.
      const bool takes_over =
          from == graph_.node(node).from.front() && gradient_in_place(graph_, node);
      if (!takes_over) {
        gradient = add_tensor(TensorKind::gradient, from, map_bytes(from));
      } else if (graph_.node(node).type == NodeType::softmax) {
        gradient = result_.feature[at(node)];
      } else {
        gradient = result_.gradient[at(node)];
      }
    }
  }

  void use(int number, int id) {
    if (id < 0) return;
    Step& step = result_.steps[at(number)];
    if (step.has_use(id)) return;
    step.uses.push_back(id);
    StepTensor& tensor = result_.tensors[at(id)];
    if (tensor.forward_uses.empty() && tensor.backward_uses.empty()) step.produces.push_back(id);
    (step.pass == Pass::forward ? tensor.forward_uses : tensor.backward_uses).push_back(number);
  }

  void forward_step(int number, int node) {
    Step& step = result_.steps[at(number)];
    step.node = node;
    step.pass = Pass::forward;
    for (const int from : graph_.node(node).from) {
      use(number, result_.feature[at(from)]);
    }
    use(number, result_.feature[at(node)]);
    use(number, result_.mask[at(node)]);
  }

  void backward_step(int number, int node) {
    Step& step = result_.steps[at(number)];
    step.node = node;
    step.pass = Pass::backward;
    const NodeNeeds needs =
        backward_needs(graph_, node, result_.options.batch, result_.options.needs);
    const auto read = [&](int id) {
      use(number, id);
      if (!step.has_read(id)) step.reads.push_back(id);
    };
    if (needs.input) {
      for (const int from : graph_.node(node).from) {
        read(result_.feature[at(from)]);
      }
    }
    if (needs.output) read(result_.feature[at(node)]);
    use(number, result_.mask[at(node)]);
    use(number, result_.gradient[at(node)]);
    for (const int from : graph_.node(node).from) {
      use(number, result_.gradient[at(from)]);
    }
  }

  void mark_kept() {
    for (const int id : result_.feature) {
      StepTensor& tensor = result_.tensors[at(id)];
      const std::vector<int>& consumers = graph_.consumers(tensor.node);
      if (consumers.empty()) {
        tensor.kept = true;
      } else {
        const Step& last = result_.step(tensor.forward_uses.back());
        tensor.kept = is_reclaimed_type(graph_.node(last.node).type);
      }
      if (!tensor.backward_uses.empty()) tensor.reclaimed = tensor.kept;  // else it moves
    }
  }

  const Graph& graph_;
  std::vector<int> order_;
  TrainingStep result_;
};

// Within this bound on a map, its gradient and a mask of each node, the steps that an lstm keeps
// and the scores that attention stores, no sum of bytes exceeds 64 bits.
void check_bytes(const Graph& graph, std::int64_t batch) {
  constexpr auto kMost = static_cast<double>(std::uint64_t{1} << 60);
  double numbers = 0;
  for (int node = 0; node < graph.size(); ++node) {
    const Node& one = graph.node(node);
    numbers += 3 * static_cast<double>(one.shape.numbers());
    if (one.scores) {
      const auto steps = static_cast<double>(one.shape.height);
      numbers += static_cast<double>(one.heads) * steps * steps;
    }
    if (one.type != NodeType::lstm) continue;
    numbers +=
        6 * static_cast<double>(one.units) * static_cast<double>(sequence_steps(graph, node));
  }
  const double bytes = static_cast<double>(batch) * numbers * kNumberBytes;
  if (bytes <= kMost) return;
  refuse(graph.name(),
         fmt::format("{} of feature maps for a batch of {} samples", format_bytes(bytes), batch),
         fmt::format("at most {}", format_bytes(kMost)), "use a smaller batch or a smaller network",
         ExitCode::data);
}

}  // namespace

std::uint64_t TrainingStep::feature_bytes() const {
  std::uint64_t sum = 0;
  for (const int id : feature) sum += tensor(id).bytes;
  return sum;
}

std::uint64_t TrainingStep::need(int number) const {
  std::uint64_t sum = 0;
  for (const int id : step(number).uses) sum += tensor(id).bytes;
  return sum;
}

// No policy moves a gradient or a mask, so one that waits between two of its uses takes its bytes.
// This gradient sets the bound of ResNets. While a block's last bn goes backward, its X, G of its
// output and G of its input are three maps of 306 MiB for ResNet-50 and 100 images. The gradient of
// the block's input, to which the shortcut has added, waits as a fourth one. Networks without
// shortcuts have no such gradient, and their bound is the largest need of a step.
std::uint64_t TrainingStep::lower_bound() const {
  return lower_bound([](const StepTensor&) { return true; });
}

std::uint64_t TrainingStep::lower_bound(
    const std::function<bool(const StepTensor&)>& gives_way) const {
  // By step: bytes that begin to be held at it, less bytes that ended before it. The prefix sum is
  // what the step holds.
  std::vector<std::int64_t> change(steps.size() + 1, 0);
  const auto hold = [&](int first, int last, std::uint64_t bytes) {
    change[at(first)] += static_cast<std::int64_t>(bytes);
    change[at(last) + 1] -= static_cast<std::int64_t>(bytes);
  };
  for (const StepTensor& tensor : tensors) {
    if (tensor.kind != TensorKind::feature || !gives_way(tensor)) {
      hold(tensor.first_use(), tensor.last_use(), tensor.bytes);
      continue;
    }
    for (const auto* uses : {&tensor.forward_uses, &tensor.backward_uses}) {
      for (const int k : *uses) hold(k, k, tensor.bytes);
    }
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<std::uint64_t>(*std::max_element(change.begin(), change.end()));
}

std::uint64_t TrainingStep::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const StepTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

bool TrainingStep::gives_input_gradient(int node) const {
  const std::vector<int>& from = graph->node(node).from;
  return options.input_gradient ||
         std::any_of(from.begin(), from.end(), [](int input) { return input != 0; });
}

TrainingStep training_step(const Graph& graph, const StepOptions& options) {
  check_bytes(graph, options.batch);
  return StepBuilder(graph, options).build();
}

std::vector<int> execution_order(const Graph& graph) {
  std::vector<std::size_t> arrivals(static_cast<std::size_t>(graph.size()), 0);
  std::vector<int> order;
  // The last node is visited next. A stack, because recursion would be as deep as the network.
  std::vector<int> stack{0};
  while (!stack.empty()) {
    const int node = stack.back();
    stack.pop_back();
    std::size_t& count = arrivals[at(node)];
    if (++count < std::max<std::size_t>(1, graph.node(node).from.size())) continue;
    order.push_back(node);
    const std::vector<int>& next = graph.consumers(node);
    stack.insert(stack.end(), next.rbegin(), next.rend());
  }
  return order;
}

}  // namespace hetsgd
