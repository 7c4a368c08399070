#include "model/network/masking.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.hpp"

namespace hetsgd {

std::size_t MaskRule::targets(std::size_t tokens) const {
  const double wanted = std::floor(share * static_cast<double>(tokens) + 0.5);
  return std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, tokens);
}

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
