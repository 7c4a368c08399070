// The distinct feature numbers of a batch, ascending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.hpp"

namespace hetsgd {

// A bitmap of the features and one of its words: marking is one pass over the nonzeros, and reading
// the marks back in order needs no sort and skips the untouched parts.
class TouchedRows {
 public:
  explicit TouchedRows(std::size_t feature_count)
      : marks_((feature_count + 63) / 64), words_((marks_.size() + 63) / 64) {}

  // Replaces `rows`; keeps its capacity.
  void collect(const Batch& batch, std::vector<Index>& rows);

 private:
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint64_t> words_;  // bit i: marks_[i] is not 0
};

}  // namespace hetsgd
