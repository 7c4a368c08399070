// Graphs and rates of the tests of memory/.
#pragma once

#include "core/units.hpp"
#include "graph/networks.hpp"
#include "memory/plan.hpp"
#include "memory/policy.hpp"
#include "memory/pool.hpp"

namespace hetsgd {

inline constexpr std::uint64_t kRoom = std::uint64_t{1} << 45;
inline constexpr double kMiB = 1 << 20;

// Rates of a device that needs 1 us per launch, and whose link carries `link` bytes per second.
inline DeviceRates test_rates(double link = 1e9, double operations = 1e12) {
  return {
      .seconds =
          [operations](const Work& work) {
            return Seconds(1e-6 * work.launches + work.operations / operations + work.bytes / 1e11);
          },
      .link_bytes_per_s = link};
}

struct Planned {
  std::unique_ptr<Graph> graph;  // which training points to
  TrainingStep training;
  StepTimes times;

  explicit Planned(Graph built, StepOptions options = {}, const DeviceRates& rates = test_rates())
      : graph(std::make_unique<Graph>(std::move(built))),
        training(training_step(*graph, options)),
        times(step_times(training, rates)) {}
  PlanRequest request(std::uint64_t capacity = kRoom) const {
    PlanRequest request;
    request.training = &training;
    request.times = &times;
    request.capacity = capacity;
    request.record = true;
    return request;
  }
  MemoryPlan plan(const Policy& policy, std::uint64_t capacity = kRoom) const {
    return policy.plan(request(capacity));
  }
};

inline Graph named(const std::string& name) { return find_graph("NETWORK", name); }

// Every tensor at an address of its own, as if memory were unlimited.
inline MemoryPlan plan_without_reuse(const TrainingStep& training) {
  MemoryPlan plan;
  std::uint64_t offset = 0;
  const auto allocate = [&](int tensor, int step) {
    const std::uint64_t bytes = training.tensor(tensor).bytes;
    plan.instructions.push_back({InstructionKind::allocate, step, tensor, offset, bytes});
    offset += rounded(bytes, kPoolUnit);
  };
  for (int k = 1; k <= training.total_steps(); ++k) {
    for (const int tensor : training.step(k).produces) allocate(tensor, k);
    plan.instructions.push_back({InstructionKind::compute, k});
  }
  plan.peak_bytes = offset;
  return plan;
}

}  // namespace hetsgd
