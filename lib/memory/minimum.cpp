#include "memory/minimum.hpp"

#include <cmath>

namespace hetsgd {

std::optional<std::uint64_t> minimum_capacity(const Policy& policy, PlanRequest request) {
  constexpr double kStep = 1.01, kMost = 64;
  if (const auto total = policy.total_bytes(request)) return total;
  const Policy& feasible = policy.feasibility();
  if (&feasible != &policy) request.convolution = ConvolutionMode::memory;
  const auto bound = static_cast<double>(request.training->lower_bound());
  for (double factor = 1; factor <= kMost; factor *= kStep) {
    request.capacity = rounded(static_cast<std::uint64_t>(std::ceil(bound * factor)), kPoolUnit);
    if (feasible.plan(request).fits()) return request.capacity;
  }
  return std::nullopt;
}

std::int64_t largest_batch(const std::function<bool(std::int64_t)>& fits, std::int64_t most) {
  std::int64_t low = 0, high = 1;  // low fits, high is tried
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

}  // namespace hetsgd
