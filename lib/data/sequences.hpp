// Sequences of a batch in the form that a model reads: side by side, padded to one number of steps.
//
// Layout : X [count x numbers x steps], as an image [numbers, steps, 1]. Elements after the end of
//          a row are 0.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/batch.hpp"

namespace hetsgd {

// The frames of a row. Frames that are made when read are put into `scratch`.
std::span<const float> frames_of(const Dataset& data, std::uint64_t row,
                                 std::vector<float>& scratch);

// The numbers of frames of the rows first .. first + count of the batch. The data must have
// sequences.
std::vector<std::size_t> lengths_of(const Batch& batch, std::size_t first, std::size_t count);

// to[count x numbers x steps] <- these rows. `steps` is at least the length of the longest.
template <class Real>
void copy_sequences(const Batch& batch, std::size_t first, std::size_t count, std::size_t steps,
                    Real* to);

// The same samples, longest first. Samples of equal length keep their order.
Batch longest_first(const Batch& batch);

}  // namespace hetsgd
