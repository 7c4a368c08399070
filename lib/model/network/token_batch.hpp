// The rows of tokens of a batch in the form that a network reads: each row padded to the longest,
// or packed, one behind the other.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sequences.hpp"
#include "linalg/operands.hpp"
#include "model/network/masking.hpp"

namespace hetsgd {

struct TokenBatch {
  bool packed = false;
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

// How rows become a batch. The targets of a row, if causal, are the tokens behind every position.
// Else they are masked tokens: in training those of the batch's places in the sequence of samples,
// in a measurement a row's own.
struct TokenRules {
  bool causal = true, packed = false;
  MaskRule masks = {};

  std::size_t targets(std::size_t tokens) const { return causal ? tokens : masks.targets(tokens); }
};
enum class MaskDraw { training, measurement };

// `count` rows of the batch from `first` on.
TokenBatch token_batch(const Batch& batch, std::size_t first, std::size_t count,
                       const TokenRules& rules, MaskDraw draw);

}  // namespace hetsgd
