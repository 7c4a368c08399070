#include "model/network/token_batch.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

namespace {

MaskKey key_of(const Batch& batch, std::size_t i, MaskDraw draw) {
  if (draw == MaskDraw::measurement) return {0, batch.rows()[i]};
  return {batch.augmentation().seed, batch.augmentation().first + i};
}

}  // namespace

TokenBatch token_batch(const Batch& batch, std::size_t first, std::size_t count,
                       const TokenRules& rules, MaskDraw draw) {
  HETSGD_CHECK_LE(first + count, batch.size());
  TokenBatch result;
  result.packed = rules.packed;
  std::uint32_t longest = 0, sum = 0;
  for (const Index row : batch.rows().subspan(first, count)) {
    const std::uint32_t length = batch.data().tokens.length[row];
    result.length.push_back(length);
    longest = std::max(longest, length);
    sum += length;
  }
  result.input.assign(rules.packed ? sum : count * longest, 0);
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < count; begin += rules.packed ? result.length[i] : longest, ++i) {
    const std::span<const std::uint16_t> tokens = tokens_of(batch, first + i);
    const std::span<const std::uint16_t> inputs = tokens.first(result.length[i]);
    const auto add_target = [&](std::uint32_t position, std::uint16_t target) {
      result.position.push_back(begin + position);
      result.target.push_back(target);
      result.target_begin.push_back(result.target.size());
    };
    result.begin.push_back(begin);
    if (rules.causal) {
      std::ranges::copy(inputs, result.input.begin() + begin);
      for (std::uint32_t t = 0; t < inputs.size(); ++t) add_target(t, tokens[t + 1]);
    } else {
      const MaskedRow row = mask_row(rules.masks, key_of(batch, first + i, draw), inputs);
      std::ranges::copy(row.input, result.input.begin() + begin);
      for (const std::uint32_t t : row.position) add_target(t, inputs[t]);
    }
  }
  return result;
}

}  // namespace hetsgd
