#include "data/sequences.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"

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

std::span<const std::uint16_t> tokens_of(const Batch& batch, std::size_t i) {
  HETSGD_CHECK_LT(i, batch.size());
  const TokenRows<View>& tokens = batch.data().tokens;
  const Index row = batch.rows()[i];
  const std::span<const std::uint16_t> reach = tokens.reach(row);
  std::uint64_t shift = 0;
  if (batch.augmentation().change == Augmentation::shift) {
    RandomStream stream(batch.augmentation().seed, Purpose::augmentation,
                        batch.augmentation().first + i);
    shift = stream.below(reach.size() - tokens.length[row]);
  }
  return reach.subspan(shift, std::size_t{tokens.length[row]} + 1);
}

void place_tokens(const TokenRows<View>& from, std::uint64_t size, std::span<const Index> rows,
                  TokenRows<Owned>& to) {
  const auto taken = [&](Index row) { return std::uint64_t{from.length[row]} + 1 + from.room; };
  const auto is_short = [&](Index row) { return taken(row) > size - from.begin[row]; };
  std::uint64_t place = 0, tail = size;
  for (const Index row : rows) {
    to.begin.push_back(place);
    to.length.push_back(from.length[row]);
    to.bytes.push_back(from.bytes[row]);
    if (is_short(row)) {
      tail = std::min(tail, from.begin[row]);
    } else {
      place += taken(row);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_short(rows[i])) to.begin[i] = place + from.begin[rows[i]] - tail;
  }
  to.token.resize(place + size - tail);
}

}  // namespace hetsgd
