// The smallest memory and the largest batch of a policy.
#pragma once

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

}  // namespace hetsgd
