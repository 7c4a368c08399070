#include "data/sequences.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

std::span<const float> frames_of(const Dataset& data, std::uint64_t row,
                                 std::vector<float>& scratch) {
  if (!data.drawn) return data.sequences.row(row);
  scratch.resize(data.length(row) * data.sequences.numbers);
  data.drawn->draw(row, scratch);
  return scratch;
}

std::vector<std::size_t> lengths_of(const Batch& batch, std::size_t first, std::size_t count) {
  HETSGD_CHECK_LE(first + count, batch.size());
  std::vector<std::size_t> lengths;
  lengths.reserve(count);
  for (const Index row : batch.rows().subspan(first, count)) {
    lengths.push_back(batch.data().length(row));
  }
  return lengths;
}

template <class Real>
void copy_sequences(const Batch& batch, std::size_t first, std::size_t count, std::size_t steps,
                    Real* to) {
  HETSGD_CHECK_LE(first + count, batch.size());
  const Sequences<View>& sequences = batch.data().sequences;
  const std::size_t numbers = sequences.numbers;
  std::vector<float> scratch;
  std::fill_n(to, count * numbers * steps, Real(0));
  for (const Index row : batch.rows().subspan(first, count)) {
    const std::span<const float> frames = frames_of(batch.data(), row, scratch);
    HETSGD_CHECK_LE(sequences.length(row), steps);
    for (std::size_t at = 0; at < frames.size(); ++at) {
      to[at % numbers * steps + at / numbers] = static_cast<Real>(frames[at]);
    }
    to += numbers * steps;
  }
}

template void copy_sequences(const Batch&, std::size_t, std::size_t, std::size_t, float*);
template void copy_sequences(const Batch&, std::size_t, std::size_t, std::size_t, double*);

Batch longest_first(const Batch& batch) {
  Batch sorted;
  std::vector<Index>& rows = sorted.reset(batch.data(), batch.augmentation());
  rows.assign(batch.rows().begin(), batch.rows().end());
  std::stable_sort(rows.begin(), rows.end(), [&](Index a, Index b) {
    return batch.data().length(a) > batch.data().length(b);
  });
  return sorted;
}

}  // namespace hetsgd
