#include "memory/sizing.hpp"

#include "memory/groups.hpp"

namespace hetsgd {

std::optional<std::uint64_t> sized_capacity(const Policy& policy, PlanRequest request,
                                            std::uint64_t main_initial_bytes,
                                            std::uint64_t beta_bytes) {
  const std::uint64_t incremental = incremental_bytes(*request.training);
  request.capacity = main_initial_bytes + incremental;
  request.record = false;
  const MemoryPlan first = policy.plan(request);
  if (!first.fits()) return std::nullopt;
  return main_initial_bytes - first.smallest_gap_bytes + beta_bytes + incremental;
}

std::optional<IterationSeries> run_iterations(const Policy& policy, const PlanRequest& request,
                                              int iterations, std::uint64_t beta_bytes) {
  constexpr int kMostRestarts = 1000;
  IterationSeries series{.iterations = iterations};
  double seconds = 0;
  for (int i = 0; i < iterations; ++i) {
    PlanRequest attempt = request;
    attempt.record = false;
    attempt.jitter_seed += static_cast<std::uint64_t>(i);
    for (int restarts = 0;; ++restarts) {
      const MemoryPlan plan = policy.plan(attempt);
      seconds += plan.iteration_s;
      if (plan.fits()) {
        series.failed += restarts > 0;
        break;
      }
      if (restarts == kMostRestarts) return std::nullopt;
      ++series.restarts;
      attempt.capacity += beta_bytes;
    }
  }
  series.mean_iteration_s = seconds / iterations;
  return series;
}

}  // namespace hetsgd
