// The masks of rows of tokens for bidirectional networks, as BERT draws them.
//
// Source : Devlin and others 2018, section 3.1, and their code, which masks exactly k tokens.
// Draws  : Philox streams of Purpose::augmentation with b = 1, in order: which tokens, then one
//          number for each target in ascending order, and a token where it is replaced by one. In
//          training the key is (seed, the row's place in the sequence of samples), so that an epoch
//          brings new masks and every cluster the same. In a measurement it is (0, the row).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "graph/graph.hpp"

namespace hetsgd {

struct MaskRule {
  double share = 0.15;    // of a row's tokens that are targets
  double masked = 0.8;    // of the targets: shown as the mask
  double replaced = 0.1;  // of the targets: shown as any token; the rest stays
  Index kinds = 0;        // of the data; the mask is the token behind them

  std::size_t targets(std::size_t tokens) const {
    return static_cast<std::size_t>(masked_tokens(share, static_cast<std::int64_t>(tokens)));
  }
};

// The key of a row's draws.
struct MaskKey {
  std::uint64_t seed = 0, place = 0;
};

struct MaskedRow {
  std::vector<std::uint16_t> input;
  std::vector<std::uint32_t> position;  // the targets, ascending
};

MaskedRow mask_row(const MaskRule& rule, const MaskKey& key, std::span<const std::uint16_t> tokens);

}  // namespace hetsgd
