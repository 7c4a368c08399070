#include "model/touched_rows.hpp"

#include <bit>
#include <utility>

namespace hetsgd {

void TouchedRows::collect(const Batch& batch, std::vector<Index>& rows) {
  const Dataset& data = batch.data();
  const bool fields = data.fields.count() > 0;
  for (const Index row : batch.rows()) {
    for (const Index feature : fields ? data.fields.row(row) : data.features(row)) {
      marks_[feature / 64] |= std::uint64_t{1} << (feature % 64);
      words_[feature / 4096] |= std::uint64_t{1} << (feature / 64 % 64);
    }
  }
  rows.clear();
  for (std::size_t w = 0; w < words_.size(); ++w) {
    for (std::uint64_t some = std::exchange(words_[w], 0); some != 0; some &= some - 1) {
      const std::size_t word = w * 64 + static_cast<std::size_t>(std::countr_zero(some));
      for (std::uint64_t bits = std::exchange(marks_[word], 0); bits != 0; bits &= bits - 1) {
        rows.push_back(
            static_cast<Index>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
      }
    }
  }
}

}  // namespace hetsgd
