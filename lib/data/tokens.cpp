#include "data/tokens.hpp"

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

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
