// Draws from a Zipf law in constant time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/dataset.hpp"

namespace hetsgd {

// Element number r (from 0) has probability proportional to (r + 1)^-exponent. Source: alias
// method, Walker 1977, built as in Vose 1991. Thread-safe, since it does not change after
// construction.
class ZipfSampler {
 public:
  // `values[r]` is what a draw of r returns; its size is the number of elements (at least 1).
  ZipfSampler(const std::vector<Index>& values, double exponent);

  // Maps two independent words of 32 random bits to an element's value.
  Index operator()(std::uint32_t where, std::uint32_t which) const {
    const Slot& slot = slots_[(std::uint64_t{where} * slots_.size()) >> 32];
    return which < slot.threshold ? slot.value : slot.alias;
  }

 private:
  struct Slot {
    std::uint32_t threshold;  // of 2^32: how often the slot gives its own value
    Index value;
    Index alias;
  };
  std::vector<Slot> slots_;
};

inline ZipfSampler::ZipfSampler(const std::vector<Index>& values, double exponent) {
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

// Draws from a shifted Zipf law of any support, without a table.

// P(r) ~ (r + shift)^-exponent for the ranks r = 1 .. count.
//
// Source : rejection-inversion, Hörmann and Derflinger 1996. With h(x) = (x + shift)^-exponent and
//          its integral H, u is uniform over the area below the bars of all ranks, and k is the
//          rank next to H^-1(u). k is accepted if u lies below the bar of k, which holds whenever k
//          is at most `sure_` above H^-1(u).
// Cost   : 1.0 to 1.2 uniforms, an exponential and a logarithm each.
// Thread-safe, since it does not change after construction. count >= 1, exponent > 0, shift >= 0.
class ZipfLaw {
 public:
  ZipfLaw(std::uint64_t count, double exponent, double shift = 0)
      : count_(static_cast<double>(count)), exponent_(exponent), shift_(shift) {
    lowest_ = integral(1.5) - density(1);
    highest_ = integral(count_ + 0.5);
    sure_ = 2 - inverse(integral(2.5) - density(2));
  }

  std::uint64_t operator()(RandomStream& random) const {
    while (true) {
      const double u = highest_ + random.uniform() * (lowest_ - highest_);
      const double x = inverse(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, count_);
      if (k - x <= sure_ || u >= integral(k + 0.5) - density(k)) {
        return static_cast<std::uint64_t>(k);
      }
    }
  }

 private:
  // If the exponent is close to 1, the power is close to the logarithm.
  static constexpr double kNearOne = 1e-8;

  double density(double x) const { return std::pow(x + shift_, -exponent_); }
  double integral(double x) const {
    const double log = std::log(x + shift_), power = 1 - exponent_;
    return std::abs(power * log) < kNearOne ? log : std::expm1(power * log) / power;
  }
  double inverse(double area) const {
    const double power = 1 - exponent_, product = power * area;
    const double log = std::abs(product) < kNearOne ? area : std::log1p(product) / power;
    return std::exp(log) - shift_;
  }

  double count_, exponent_, shift_;
  double lowest_, highest_, sure_;
};

}  // namespace hetsgd
