#include "model/network/token_batch.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

TokenBatch causal_tokens(const Batch& batch, std::size_t first, std::size_t count) {
  HETSGD_CHECK_LE(first + count, batch.size());
  TokenBatch result;
  std::uint32_t longest = 0;
  for (const Index row : batch.rows().subspan(first, count)) {
    result.length.push_back(batch.data().tokens.length[row]);
    longest = std::max(longest, result.length.back());
  }
  result.input.assign(count * longest, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::uint32_t>(i * longest);
    const std::span<const std::uint16_t> tokens = tokens_of(batch, first + i);
    result.begin.push_back(begin);
    std::copy_n(tokens.begin(), result.length[i], result.input.begin() + begin);
    for (std::uint32_t t = 0; t < result.length[i]; ++t) {
      result.position.push_back(begin + t);
      result.target.push_back(tokens[t + 1]);
      result.target_begin.push_back(result.target.size());
    }
  }
  return result;
}

}  // namespace hetsgd
