#include "memory/forward_plan.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "memory/pool.hpp"

namespace hetsgd {

MemoryPlan forward_plan(const TrainingStep& training) {
  MemoryPlan plan;
  const auto pool = make_best_fit(kAmpleBytes);
  std::vector<std::uint64_t> offset(training.tensors.size());
  const auto note = [&](InstructionKind kind, int step, int id) {
    plan.instructions.push_back({kind, step, id, offset[at(id)], training.tensor(id).bytes});
  };
  const auto stays = [&](const StepTensor& tensor) {
    return tensor.kind == TensorKind::mask &&
           training.graph->node(tensor.node).type == NodeType::bn;
  };
  for (int k = 1; k <= training.forward_steps(); ++k) {
    const Step& step = training.step(k);
    for (const int id : step.produces) {
      const auto place = pool->allocate(training.tensor(id).bytes, Mobility::temporary);
      HETSGD_CHECK(place.has_value());
      offset[at(id)] = *place;
      note(InstructionKind::allocate, k, id);
    }
    plan.peak_bytes = std::max(plan.peak_bytes, pool->used());
    plan.instructions.push_back({InstructionKind::compute, k});
    for (const int id : step.uses) {
      const StepTensor& tensor = training.tensor(id);
      if (tensor.forward_uses.back() != k || stays(tensor)) continue;
      pool->release(offset[at(id)], tensor.bytes);
      note(InstructionKind::release, k, id);
    }
  }
  return plan;
}

}  // namespace hetsgd
