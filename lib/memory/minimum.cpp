#include "memory/minimum.hpp"

#include <algorithm>
#include <cmath>

#include "memory/dymem.hpp"

namespace hetsgd {

namespace {

// The most bytes that a step needs under the policy, if all maps that it never moves stay from
// their first to their last use. No plan of the policy fits in less.
std::uint64_t bytes_needed(const Policy& policy, const PlanRequest& request) {
  const TrainingStep& training = *request.training;
  if (policy.caches(request) || request.recompute != Recomputation::none) {
    return training.lower_bound();
  }
  return training.lower_bound(
      [&](const StepTensor& tensor) { return policy.moves(training, tensor); });
}

}  // namespace

std::optional<std::uint64_t> minimum_capacity(const Policy& policy, PlanRequest request) {
  constexpr double kStep = 1.01, kMost = 64;
  if (const auto total = policy.total_bytes(request)) return total;
  const auto bound = static_cast<double>(request.training->lower_bound());
  const std::uint64_t needed = bytes_needed(policy, request);
  const auto all = static_cast<double>(request.training->tensor_bytes());
  const double most = std::max(kMost * bound, 2 * all);
  for (double factor = 1; bound * factor <= most; factor *= kStep) {
    request.capacity = rounded(static_cast<std::uint64_t>(std::ceil(bound * factor)), kPoolUnit);
    if (request.capacity < needed) continue;
    if (policy.fits(request)) return request.capacity;
  }
  return std::nullopt;
}

std::int64_t largest_batch(const std::function<bool(std::int64_t)>& fits, std::int64_t most) {
  std::int64_t low = 0, high = 1;  // low fits, high is tried next
  while (high <= most && fits(high)) {
    low = high;
    high *= 2;
  }
  if (high > most) return low;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

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
