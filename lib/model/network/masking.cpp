#include "model/network/masking.hpp"

#include <algorithm>
#include <numeric>

#include "core/random.hpp"

namespace hetsgd {

MaskedRow mask_row(const MaskRule& rule, const MaskKey& key,
                   std::span<const std::uint16_t> tokens) {
  RandomStream random(key.seed, Purpose::augmentation, key.place, 1);
  MaskedRow row{{tokens.begin(), tokens.end()}, std::vector<std::uint32_t>(tokens.size())};
  std::iota(row.position.begin(), row.position.end(), 0U);
  const std::size_t count = rule.targets(tokens.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(row.position[i], row.position[i + random.below(tokens.size() - i)]);
  }
  row.position.resize(count);
  std::ranges::sort(row.position);
  for (const std::uint32_t position : row.position) {
    const double u = random.uniform();
    if (u < rule.masked) {
      row.input[position] = static_cast<std::uint16_t>(rule.kinds);
    } else if (u < rule.masked + rule.replaced) {
      row.input[position] = static_cast<std::uint16_t>(random.below(rule.kinds));
    }
  }
  return row;
}

}  // namespace hetsgd
