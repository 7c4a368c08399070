// The smallest memory and the largest batch of a policy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "memory/policy.hpp"

namespace hetsgd {

// The first of the capacities lower_bound x 1.01^j that lets an iteration complete, rounded up to
// the pool's unit. Bisection is not used, since a plan that fits may fail with more memory.
// Capacities below the needs of the maps that the policy never moves are skipped. Empty: none up to
// 64 times the bound, or up to twice all tensors together if that is more.
std::optional<std::uint64_t> minimum_capacity(const Policy& policy, PlanRequest request);

// The largest batch up to `most` that fits. It is doubled until one fails, then bisected, so that b
// fits and b + 1 fails. 0 if not even one sample fits.
std::int64_t largest_batch(const std::function<bool(std::int64_t)>& fits,
                           std::int64_t most = std::int64_t{1} << 20);

// How Dymem sizes its main space, and what happens when an iteration outgrows it.
//
// Paper      : Dymem (Yang 2022), 4.1.3.3 and table 4.2.
// Implements : the first iteration runs in a large main space. Then the size is set to that, less
//              the smallest gap between the arenas, plus beta. An iteration that fails starts again
//              with beta more.
// Deviations : the additional beta holds for that iteration alone. If it stayed, a thousand
//              iterations could not fail as often as the table says, because each failure would
//              make later ones rarer.

// The capacity of all iterations but the first, the incremental region included. For policies with
// arenas. Empty: the first iteration does not fit.
std::optional<std::uint64_t> sized_capacity(const Policy& policy, PlanRequest request,
                                            std::uint64_t main_initial_bytes,
                                            std::uint64_t beta_bytes);

// Totals of a series of iterations.
struct IterationSeries {
  int iterations = 0;
  int failed = 0;               // iterations that had to start again
  int restarts = 0;             // of all iterations together
  double mean_iteration_s = 0;  // including failed attempts
};

// Runs iterations with different times: the i-th has the jitter of seed request.jitter_seed + i.
// Empty: one does not fit with any number of restarts.
std::optional<IterationSeries> run_iterations(const Policy& policy, const PlanRequest& request,
                                              int iterations, std::uint64_t beta_bytes);

}  // namespace hetsgd
