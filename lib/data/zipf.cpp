#include "data/zipf.hpp"

#include <cmath>

#include "core/error.hpp"

namespace hetsgd {

ZipfSampler::ZipfSampler(const std::vector<Index>& values, double exponent) {
  const std::size_t n = values.size();
  HETSGD_CHECK_LT(0U, n);
  std::vector<double> share(n);  // probability times n
  double total = 0;
  for (std::size_t r = 0; r < n; ++r)
    total += share[r] = std::pow(static_cast<double>(r + 1), -exponent);
  for (double& s : share) s *= static_cast<double>(n) / total;

  // Shares descend: `poor` walks up from the tail, `rich` down from the head; a rich slot fills a
  // poor one and joins the poor when its own share falls below one.
  slots_.resize(n);
  for (std::size_t r = 0; r < n; ++r) slots_[r] = {0xFFFFFFFFU, values[r], values[r]};
  std::size_t rich = 0;
  std::size_t tail = n;
  std::size_t pending = n;  // a rich slot that became poor; n: none
  while (rich < n && share[rich] > 1.0) {
    std::size_t poor = pending;
    if (pending == n) {
      if (tail == rich + 1) break;
      poor = --tail;
    }
    pending = n;
    if (share[poor] < 1.0) {
      slots_[poor].threshold = static_cast<std::uint32_t>(share[poor] * 0x1.0p32);
      slots_[poor].alias = values[rich];
      share[rich] -= 1.0 - share[poor];
    }
    if (share[rich] < 1.0) pending = rich++;
  }
}

}  // namespace hetsgd
