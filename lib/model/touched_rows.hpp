// The distinct features, or categories, of a batch, ascending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.hpp"

namespace hetsgd {

// A bitmap of the features and one of its words. Marking is one pass over the nonzeros. Reading the
// marks back in order needs no sort and skips the untouched parts.
//
//   words_   bit i: is anything set in marks_[i]?     1 bit per 64 words, so per 4096 features
//   marks_   bit j of word i: is feature 64 i + j in the batch?
//
// Both are all zero between calls: reading them back clears what it reads. For z nonzeros, t
// touched features and f features in all: time z + t + f / 4096, memory f / 8 bytes. Not
// thread-safe.
class TouchedRows {
 public:
  explicit TouchedRows(std::size_t feature_count)
      : marks_((feature_count + 63) / 64), words_((marks_.size() + 63) / 64) {}

  // rows <- the distinct features of the batch, or its categories if the data has fields,
  // ascending. Replaces `rows` and keeps its capacity. Every row must be below feature_count.
  void collect(const Batch& batch, std::vector<Index>& rows);

 private:
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint64_t> words_;  // bit i: marks_[i] is not 0
};

}  // namespace hetsgd
