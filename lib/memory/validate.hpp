// Checks a recorded plan without trusting the planner.
#pragma once

#include <string>

#include "memory/plan.hpp"

namespace hetsgd {

// What is wrong with a plan that fits; empty: nothing. No two live tensors share an address; every
// use finds its tensor there and complete; a release comes after the last use and, where the tensor
// is needed again, after its offload, unless it is computed again before that; nothing is left at
// the end; a map is written to the host once, and fetched = offloaded maps' later uses + cancelled
// bytes.
std::string plan_problem(const PlanRequest& request, const MemoryPlan& plan);

}  // namespace hetsgd
