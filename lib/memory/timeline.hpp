// One training step on two servers, computing and transfers, within a pool of a given capacity.
//
//   forward k    waits for its predecessor and for memory (releases by offloads under way); queues
//                the offloads that it triggers; its dead tensors go when it and their offloads
//                have ended
//   turn         both servers are idle
//   backward k   fetches what it misses before all else; starts prefetches while it computes, as
//                long as the head of the queue has room; tensors go after their last use
#pragma once

#include "memory/plan.hpp"
#include "memory/policy.hpp"

namespace hetsgd {

MemoryPlan run_timeline(const Policy& policy, const PlanRequest& request);

}  // namespace hetsgd
