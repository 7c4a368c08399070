// One training step on two servers, computing and transfers, within a pool of a given capacity.
//
//   forward k    waits for its predecessor and for memory (releases by offloads in flight); queues
//                the offloads that it triggers; its dead tensors are released when it and their
//                offloads have ended
//   turn         both servers are idle
//   backward k   first fetches the maps that it lacks; starts prefetches while it computes, as long
//                as the head of the queue has room; releases tensors after their last use
#pragma once

#include "memory/plan.hpp"
#include "memory/policy.hpp"

namespace hetsgd {

MemoryPlan run_timeline(const Policy& policy, const PlanRequest& request);

}  // namespace hetsgd
