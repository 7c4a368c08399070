// Groups of tensors by mobility (paper 004, algorithm 4) and the order of allocations within a
// step.
#pragma once

#include <vector>

#include "memory/lifetime.hpp"
#include "memory/pool.hpp"

namespace hetsgd {

// Of the tensor when it is allocated in this pass. A map that is fetched has its backward uses; one
// that stays from the forward pass keeps the group that it was allocated with.
Mobility mobility_of(const TrainingStep& training, const StepTensor& tensor, Pass pass);

// Temporaries first, by more consumers, then by later last use; then the others in the given order,
// that of the step's inputs.
void sort_allocations(const TrainingStep& training, Pass pass, std::vector<int>& tensors);

// The most bytes that reclaimed tensors, each rounded up to the pool's unit, take at once. None of
// them moves, so that it does not depend on times.
std::uint64_t incremental_bytes(const TrainingStep& training);

}  // namespace hetsgd
