// Policy `superneurons`: liveness, and the outputs of convolutions move to the host once they are
// made; at a convolution's backward step the map of the one before it is fetched, else on demand.
// With the tensor cache, nothing moves until memory runs short; then the maps that were used least
// recently do. With recomputation, what lies between checkpoints is dropped and computed again.
// Source     : SuperNeurons (PPoPP 2018), sections 3.3 and 3.4, as paper 004 compares with it
//              (4.2.1: without recomputation, the default).
// Deviations : the cache keeps maps that the forward pass will read again, and those that were
//              computed again.
#include "memory/policy.hpp"
#include "memory/recomputation.hpp"
#include "memory/timeline.hpp"

namespace hetsgd {
namespace {

class SuperNeuronsPolicy final : public Policy {
 public:
  std::string name() const override { return "superneurons"; }
  std::string summary() const override { return "liveness, outputs of conv moved"; }
  bool moves(const TrainingStep& training, const StepTensor& tensor) const override {
    return tensor.kind == TensorKind::feature && !tensor.backward_uses.empty() &&
           training.graph->node(tensor.node).type == NodeType::conv;
  }
  OffloadTrigger trigger() const override { return OffloadTrigger::production_end; }
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
    const auto is_conv = [&](int m) {
      return training.node_of(training.step(m)).type == NodeType::conv;
    };
    if (!is_conv(k)) return;
    int m = k - 1;
    while (m >= 1 && !is_conv(m)) --m;
    if (m < 1) return;
    const int map = training.feature[static_cast<std::size_t>(training.step(m).node)];
    if (queue.is_absent(map)) queue.push(map);
  }
};

}  // namespace

const Policy& superneurons_policy() {
  static const SuperNeuronsPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
