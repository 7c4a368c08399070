#include "model/network/graph_context.hpp"

#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"
#include "memory/minimum.hpp"
#include "memory/plan.hpp"

namespace hetsgd {
namespace {

// Packed tokens are samples of one step.
bool is_packed(const Graph& graph) {
  return graph.reads_tokens() && graph.node(0).shape.height == 1;
}

MemoryPlan planned(const TrainingStep& training, const PlanRules& rules, const StepTimes& times,
                   bool record) {
  PlanRequest request;
  request.training = &training;
  request.times = &times;
  const auto least = [&] { return minimum_capacity(rules.policy, request).value_or(0); };
  request.capacity = rules.capacity ? *rules.capacity : least();
  request.record = record;
  MemoryPlan plan = rules.policy.plan(request);
  if (plan.fits()) return plan;
  const auto bytes = [](std::uint64_t count) { return format_bytes(static_cast<double>(count)); };
  refuse("--activation-memory", bytes(request.capacity),
         fmt::format("at least {} for a batch of {} {} of {} under {}", bytes(least()),
                     training.options.batch, is_packed(*training.graph) ? "tokens" : "samples",
                     training.graph->name(), rules.policy.name()),
         "use a smaller --batch-size, or --memory-policy dymem");
}

TrainingStep executed_step(const Graph& graph, std::int64_t batch) {
  return training_step(graph, {.batch = batch, .needs = BackwardNeeds::minimal});
}

}  // namespace

DeviceRates host_rates() {
  constexpr double kOperations = 1e11, kBytes = 1e10;  // per second
  return {.seconds =
              [](const Work& work) {
                return Seconds(work.operations / kOperations + work.bytes / kBytes);
              },
          .link_bytes_per_s = kBytes};
}

std::int64_t planned_steps(double steps) {
  return kStepsPlanned * static_cast<std::int64_t>(std::ceil(steps / kStepsPlanned));
}

PlannedBatch::PlannedBatch(const Graph& graph, const PlanRules& rules, std::int64_t batch,
                           const DeviceRates& rates)
    : training(executed_step(graph, batch)),
      plan(planned(training, rules, step_times(training, rates), true)) {}

PlannedBatch::PlannedBatch(const Graph& graph, std::int64_t batch)
    : training(executed_step(graph, batch)), plan(forward_plan(training)) {}

Seconds planned_time(const Graph& graph, const PlanRules& rules, std::int64_t batch,
                     const DeviceRates& rates) {
  const TrainingStep training = executed_step(graph, batch);
  StepTimes times = step_times(training, rates);
  for (StepTime& step : times.steps) {
    step = {.other_s = step.convolution_s + step.other_s};
  }
  return Seconds(planned(training, rules, times, false).iteration_s);
}

}  // namespace hetsgd
