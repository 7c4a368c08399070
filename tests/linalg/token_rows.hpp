// Rows of tokens for tests: where they lie in a map.
#pragma once

#include <cstdint>
#include <vector>

#include "linalg/operands.hpp"

namespace hetsgd::test {

// Rows one after the other, or each padded to `steps` tokens.
struct TokenRowsOfTest {
  explicit TokenRowsOfTest(std::vector<std::uint32_t> lengths, std::uint32_t steps = 0)
      : length(std::move(lengths)) {
    std::uint32_t next = 0;
    for (const std::uint32_t each : length) {
      begin.push_back(next);
      next += steps > 0 ? steps : each;
    }
    tokens = next;
  }

  TokenSpans spans() const { return {tokens, length.size(), begin.data(), length.data()}; }
  // f(row, step, token) of every token.
  template <class F>
  void each(const F& f) const {
    for (std::size_t r = 0; r < length.size(); ++r) {
      for (std::size_t t = 0; t < length[r]; ++t) f(r, t, begin[r] + t);
    }
  }

  std::vector<std::uint32_t> begin, length;
  std::size_t tokens = 0;
};

}  // namespace hetsgd::test
