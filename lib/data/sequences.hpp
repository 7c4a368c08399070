// Sequences of a batch as a model reads them: side by side, padded to one number of steps.
//
// Layout : X [count x numbers x steps], as an image [numbers, steps, 1]; what lies behind the end
//          of a row is 0.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/batch.hpp"

namespace hetsgd {

// The row's frames; those that are made when they are read lie in `scratch`.
std::span<const float> frames_of(const Dataset& data, std::uint64_t row,
                                 std::vector<float>& scratch);

// Frames of the rows first .. first + count of the batch. Of data with sequences.
std::vector<std::size_t> lengths_of(const Batch& batch, std::size_t first, std::size_t count);

// to[count x numbers x steps] <- these rows. `steps`: at least the frames of the longest.
template <class Real>
void copy_sequences(const Batch& batch, std::size_t first, std::size_t count, std::size_t steps,
                    Real* to);

// The same samples, longest first; of equal length in the order of the batch.
Batch longest_first(const Batch& batch);

}  // namespace hetsgd
