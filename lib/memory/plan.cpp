#include "memory/plan.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "memory/pool.hpp"

namespace hetsgd {

double convolution_factor(const Graph& graph, int node, const DeviceRates& rates) {
  if (graph.node(node).type != NodeType::conv) return 1;
  const auto channels = static_cast<double>(graph.node(node).channels);
  const auto depth = static_cast<double>(filter_size(graph, node));
  return (1 + rates.half_channels / channels) * (1 + rates.half_depth / depth);
}

StepTimes step_times(const TrainingStep& training, const DeviceRates& rates) {
  const Graph& graph = *training.graph;
  StepTimes times{.steps = {{}},
                  .link_latency_s = rates.link_latency_s,
                  .link_bytes_per_s = rates.link_bytes_per_s};
  for (int k = 1; k <= training.total_steps(); ++k) {
    const Step& step = training.step(k);
    Work work = node_work(graph, step.node, step.pass, training.options.batch,
                          training.gives_input_gradient(step.node));
    StepTime time;
    if (graph.node(step.node).type == NodeType::conv) {
      const double factor = convolution_factor(graph, step.node, rates);
      time.convolution_s = rates.seconds(Work{.operations = work.operations * factor}).count();
      work.operations = 0;
    }
    time.other_s = rates.seconds(work).count();
    times.steps.push_back(time);
  }
  return times;
}

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
