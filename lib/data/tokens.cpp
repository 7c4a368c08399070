#include "data/tokens.hpp"

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

std::span<const std::uint16_t> tokens_of(const Batch& batch, std::size_t i) {
  HETSGD_CHECK_LT(i, batch.size());
  const TokenRows<View>& tokens = batch.data().tokens;
  const Index row = batch.rows()[i];
  std::uint64_t shift = 0;
  if (batch.augmentation().change == Augmentation::shift) {
    RandomStream stream(batch.augmentation().seed, Purpose::augmentation,
                        batch.augmentation().first + i);
    shift = stream.below(std::uint64_t{tokens.room} + 1);
  }
  return tokens.reach(row).subspan(shift, std::size_t{tokens.length[row]} + 1);
}

}  // namespace hetsgd
