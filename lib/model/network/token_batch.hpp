// The rows of tokens of a batch in the form that a network reads: each row padded to the longest.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokens.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

struct TokenBatch {
  std::vector<std::uint32_t> begin, length;  // by row, as TokenSpans
  std::vector<std::uint16_t> input;          // by token of the map; padding is token 0
  // The tokens of the map that have a target, ascending, and their targets, as rows of labels.
  std::vector<std::uint32_t> position, target;
  std::vector<std::uint64_t> target_begin{0};

  TokenSpans spans() const { return {input.size(), begin.size(), begin.data(), length.data()}; }
  std::size_t targets() const { return target.size(); }
  template <class Real>
  SparseRows<Real> labels(std::size_t kinds) const {
    return {target.size(), kinds, nullptr, target_begin.data(), target.data(), nullptr};
  }
};

// `count` rows from `first` on. The target of every position is the token behind it.
TokenBatch causal_tokens(const Batch& batch, std::size_t first, std::size_t count);

}  // namespace hetsgd
