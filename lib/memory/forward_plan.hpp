// A plan of the forward pass alone, as scores need it.
#pragma once

#include "memory/plan.hpp"

namespace hetsgd {

// A tensor has memory from its first to its last use in the forward pass, best fit, and nothing
// moves. The statistics of bn stay until the end. Only instructions and the peak are set.
MemoryPlan forward_plan(const TrainingStep& training);

}  // namespace hetsgd
