#include "memory/superneurons.hpp"

#include <algorithm>

#include "core/rank_index.hpp"
#include "memory/policy.hpp"

namespace hetsgd {

namespace {

bool is_checkpoint(const Graph& graph, int index) {
  if (graph.consumers(index).size() != 1) return true;
  const Node& node = graph.node(index);
  switch (node.type) {
    case NodeType::input:
    case NodeType::conv:
    case NodeType::fc:
    case NodeType::lstm:
    case NodeType::add:
    case NodeType::concat:
    case NodeType::softmax:
    case NodeType::embed:
    case NodeType::linear:
    case NodeType::attention:
      return true;
    case NodeType::subsample:  // the copy at a fork keeps the shape
      return node.shape == graph.input_shape(index);
    case NodeType::pool:
    case NodeType::relu:
    case NodeType::lrn:
    case NodeType::bn:
    case NodeType::dropout:
    case NodeType::norm:
    case NodeType::gelu:
      break;
  }
  return false;
}

class RecomputationBuilder {
 public:
  explicit RecomputationBuilder(const TrainingStep& training)
      : graph_(*training.graph), result_(training) {
    for (int k = result_.forward_steps() + 1; k <= result_.total_steps(); ++k) {
      l_peak_ = std::max(l_peak_, result_.need(k));
    }
  }

  TrainingStep build() {
    for (int node = 0; node < graph_.size(); ++node) {
      if (!is_checkpoint(graph_, node)) continue;
      for (const int next : graph_.consumers(node)) add_segment(node, segment_from(next));
    }
    return std::move(result_);
  }

 private:
  int map_of(int node) const { return result_.feature[at(node)]; }
  StepTensor& tensor_of(int node) { return result_.tensors[at(map_of(node))]; }

  // The segment after `node`, up to the last node whose map a backward step reads.
  std::vector<int> segment_from(int node) {
    std::vector<int> segment;
    for (; !is_checkpoint(graph_, node); node = graph_.consumers(node).front()) {
      segment.push_back(node);
    }
    while (!segment.empty() && tensor_of(segment.back()).backward_uses.empty()) segment.pop_back();
    return segment;
  }

  void add_segment(int checkpoint, const std::vector<int>& segment) {
    if (segment.empty()) return;
    std::uint64_t bytes = tensor_of(checkpoint).bytes;
    for (const int node : segment) bytes += tensor_of(node).bytes;
    const Remade remade = bytes <= l_peak_ ? Remade::once : Remade::each_step;
    for (const int node : segment) {
      if (!tensor_of(node).backward_uses.empty()) tensor_of(node).remade = remade;
    }
    // The last map of the segment is read before the others.
    const int first = tensor_of(segment.back()).backward_uses.front();
    const int last = remade == Remade::once ? first : result_.total_steps();
    for (int k = first; k <= last; ++k) compute_again(k, checkpoint, segment);
  }

  // Before step k, computes the segment again as far as the step reads it.
  void compute_again(int k, int checkpoint, const std::vector<int>& segment) {
    Step& step = result_.steps[at(k)];
    std::size_t count = segment.size();
    while (count > 0 && !step.has_read(map_of(segment[count - 1]))) --count;
    if (count == 0) return;
    step.again.assign(segment.begin(), segment.begin() + static_cast<std::ptrdiff_t>(count));
    const int map = map_of(checkpoint);
    if (step.has_read(map)) return;
    step.reads.push_back(map);
    if (!step.has_use(map)) step.uses.push_back(map);
    std::vector<int>& uses = tensor_of(checkpoint).backward_uses;
    uses.insert(std::lower_bound(uses.begin(), uses.end(), k), k);
  }

  const Graph& graph_;
  TrainingStep result_;
  std::uint64_t l_peak_ = 0;
};

// It frees tensors after their last use. Outputs of convolutions move to the
// host once they are made. At a convolution's backward step the map of the preceding convolution is
// fetched; other maps are fetched on demand. With the tensor cache, nothing moves until memory runs
// short; then the least recently used maps do. With recomputation, maps between checkpoints are
// dropped and computed again.
//
// Source     : SuperNeurons (PPoPP 2018), sections 3.3 and 3.4, as Dymem compares with it
//              (4.2.1: without recomputation, the default).
// Deviations : the cache keeps maps that the forward pass will read again, and maps that were
//              computed again.
class SuperNeuronsPolicy final : public Policy {
 public:
  SuperNeuronsPolicy()
      : Policy({.name = "superneurons", .trigger = OffloadTrigger::production_end}) {}
  bool moves(const TrainingStep& training, const StepTensor& tensor) const override {
    return tensor.kind == TensorKind::feature && !tensor.backward_uses.empty() &&
           counts_as_convolution(training.graph->node(tensor.node).type);
  }
  bool caches(const PlanRequest& request) const override {
    return request.tensor_cache == TensorCache::lru;
  }

  MemoryPlan plan(const PlanRequest& request) const override {
    if (request.recompute == Recomputation::none) return run_timeline(*this, request);
    const TrainingStep training = with_recomputation(*request.training);
    PlanRequest again = request;
    again.training = &training;
    return run_timeline(*this, again);
  }

  void search(const PlanRequest& request, int k, FetchQueue& queue) const override {
    const TrainingStep& training = *request.training;
    const auto counts = [&](int m) {
      return counts_as_convolution(training.node_of(training.step(m)).type);
    };
    if (!counts(k)) return;
    int m = k - 1;
    while (m >= 1 && !counts(m)) --m;
    if (m < 1) return;
    const int map = training.feature[at(training.step(m).node)];
    if (queue.is_absent(map)) queue.push(map);
  }
};

}  // namespace

TrainingStep with_recomputation(const TrainingStep& training) {
  return RecomputationBuilder(training).build();
}

const Policy& superneurons_policy() {
  static const SuperNeuronsPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
