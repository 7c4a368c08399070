// Groups of tensors by mobility (Dymem, algorithm 4) and the order of allocations within a step.
#pragma once

#include <vector>

#include "memory/pool.hpp"
#include "memory/training_step.hpp"

namespace hetsgd {

// The group of a tensor that is allocated in this pass. A fetched map is grouped by its backward
// uses. A map that stays from the forward pass keeps the group of its allocation.
Mobility mobility_of(const TrainingStep& training, const StepTensor& tensor, Pass pass);

// Sorts the tensors of a step in the order of allocation. Temporary tensors come first: those with
// more consumers before others, then those with a later last use. The other tensors keep their
// order.
void sort_allocations(const TrainingStep& training, Pass pass, std::vector<int>& tensors);

// The most bytes that reclaimed tensors take at once, each rounded up to the pool's unit. None of
// them moves, so the result does not depend on times.
std::uint64_t incremental_bytes(const TrainingStep& training);

}  // namespace hetsgd
