// Rows of tokens of a batch in the form that a model reads.
//
// Shift : with Augmentation::shift a row begins 0 to TokenRows::room places later, but not so late
//         that it reaches beyond the text. The draw is Philox at the sample's place in the
//         sequence: the same for a seed, an epoch and a row, on every cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/batch.hpp"

namespace hetsgd {

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
