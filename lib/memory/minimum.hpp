// The smallest memory and the largest batch of a policy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "memory/policy.hpp"

namespace hetsgd {

// The first of the capacities lower_bound x 1.01^j at which an iteration completes, rounded up to
// the pool's unit; nothing is bisected, since a plan that fits may fail with more memory.
// Capacities below what the maps that the policy never moves need are passed over without a plan.
// Empty: none up to 64 times the bound, or up to twice all tensors together if that is more.
std::optional<std::uint64_t> minimum_capacity(const Policy& policy, PlanRequest request);

// The largest batch up to `most` for which `fits` holds: doubled until one fails, then bisected,
// so that b fits and b + 1 fails; 0: not even one sample fits.
std::int64_t largest_batch(const std::function<bool(std::int64_t)>& fits,
                           std::int64_t most = std::int64_t{1} << 20);

// How Dymem finds the size of its main space, and what happens when an iteration outgrows it.
//
// Paper      : 004, 4.1.3.3 and table 4.2.
// Implements : the first iteration runs in a large main space; then its size is what that was,
//              less the smallest gap between the arenas, plus beta. An iteration that fails starts
//              again with beta more.
// Deviations : the additional beta is that iteration's alone. If it stayed, a thousand iterations
//              could not fail as often as the table says: each failure would make the next ones
//              rarer.

// The capacity of all iterations but the first, the incremental region included. Of a policy with
// arenas. Empty: the first iteration does not fit.
std::optional<std::uint64_t> sized_capacity(const Policy& policy, PlanRequest request,
                                            std::uint64_t main_initial_bytes,
                                            std::uint64_t beta_bytes);

struct IterationSeries {
  int iterations = 0;
  int failed = 0;               // of these: those that had to start again
  int restarts = 0;             // of all of them
  double mean_iteration_s = 0;  // with the attempts that failed
};

// Iterations with times of their own: the i-th has the jitter of seed request.jitter_seed + i.
// Empty: one does not fit with any number of restarts.
std::optional<IterationSeries> run_iterations(const Policy& policy, const PlanRequest& request,
                                              int iterations, std::uint64_t beta_bytes);

}  // namespace hetsgd
