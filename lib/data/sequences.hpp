// Sequences and rows of tokens of a batch in the form that a model reads. Sequences lie side by
// side, padded to one number of steps.
//
// Layout : X [count x numbers x steps], as an image [numbers, steps, 1]. Elements after the end of
//          a row are 0.
#pragma once

#include <cstddef>
#include <cstdint>
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

// --- rows of tokens ------------------------------------------------------------------------------
// Shift : with Augmentation::shift a row begins 0 to TokenRows::room places later, but not so late
//         that it reaches beyond the text. The draw is Philox at the sample's place in the
//         sequence: the same for a seed, an epoch and a row, on every cluster.
// The tokens of the i-th row of the batch, where its augmentation has put them: its inputs and
// behind them its last target. So position t has input [t] and target [t + 1]. The data must have
// tokens.
std::span<const std::uint16_t> tokens_of(const Batch& batch, std::size_t i);

// Places some rows of a text of `size` tokens one behind the other. Adds their begin, length and
// bytes to `to`, and makes room there for their tokens; the caller copies the tokens. Rows with
// less than `from.room` behind them come last and share the end of the text. from.token is not
// read.
void place_tokens(const TokenRows<View>& from, std::uint64_t size, std::span<const Index> rows,
                  TokenRows<Owned>& to);

// The tokens that a row predicts where it lies, without augmentation.
inline std::span<const std::uint16_t> targets_of(const Dataset& data, std::uint64_t row) {
  return data.tokens.reach(row).subspan(1, data.tokens.length[row]);
}

}  // namespace hetsgd
