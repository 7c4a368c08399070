// A text of random tokens for tests.
#pragma once

#include "core/random.hpp"
#include "support/dataset.hpp"

namespace hetsgd::test {

// Rows of these lengths, one after the other in a text of random tokens.
inline DatasetPtr random_text(Index kinds, const std::vector<std::uint32_t>& lengths) {
  DatasetBuilder data = dataset_of(Task::tokens, kinds);
  data.tokens.vocabulary = kinds;
  RandomStream random(3, Purpose::test);
  std::uint64_t begin = 0;
  for (const std::uint32_t length : lengths) {
    data.tokens.begin.push_back(begin);
    data.tokens.length.push_back(length);
    data.tokens.bytes.push_back(length);
    end_row(data);
    begin += length;
  }
  for (std::uint64_t i = 0; i <= begin; ++i) {
    data.tokens.token.push_back(static_cast<std::uint16_t>(random.below(kinds)));
  }
  return std::move(data).share();
}

}  // namespace hetsgd::test
