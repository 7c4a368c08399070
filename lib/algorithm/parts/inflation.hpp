// How much merges alone make a model grow. Weights that add up to 1 + e, e > 0, stretch the merged
// model, and the momentum of the global model carries each stretch on: w' = (1 + e) w +
// gamma (w - w_p) grows by e / (1 - gamma) per merge in the end, to first order. (With
// w = r^t, r^2 = (1 + e) r + gamma (r - 1), whose root near 1 is r = 1 + e / (1 - gamma).)
//
// adaptive's perturbation makes such weights (paper 000, algorithm 2: 1 + delta (u_max - u_min) /
// sum(u) in all), as long as updates stay unequal and the norms below the threshold. The model's
// length is no measure of it, because learning moves it too: so the recurrence is run on one
// number, as if nothing were learnt.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>

#include "algorithm/parts/merge.hpp"
#include "algorithm/worker.hpp"

namespace hetsgd {

class Inflation {
 public:
  explicit Inflation(double gamma) : gamma_(gamma) {}

  // A merge whose weights add up to `weight_sum`.
  void merge(double weight_sum) {
    const double next = weight_sum * growth_ + gamma_ * (growth_ - before_);
    before_ = growth_;
    growth_ = next;
    ++merges_;
  }

  // The factor by which the merges would have stretched a model that learns nothing:
  // g' = (sum of weights) g + gamma (g - g_p), from g = g_p = 1.
  double growth() const { return growth_; }
  // The last merge's part of it, as a share. Negative after a merge whose weights add up to less.
  double rate() const { return growth_ / before_ - 1; }
  std::uint64_t merges() const { return merges_; }

 private:
  double gamma_;
  double growth_ = 1, before_ = 1;
  std::uint64_t merges_ = 0;
};

// A model that merges have made so many times as long is told of: from there on more of it comes
// from merging than from learning.
constexpr double kInflationBound = 2;

// The number of merges, of at most `most`, after which weights that add up to `weight_sum` each
// time have made the model kInflationBound times as long; none: they do not.
inline std::optional<std::uint64_t> merges_to_inflate(double weight_sum, double gamma,
                                                      double most) {
  Inflation inflation(gamma);
  while (weight_sum > 1 && static_cast<double>(inflation.merges()) + 1 <= most) {
    inflation.merge(weight_sum);
    if (inflation.growth() >= kInflationBound) return inflation.merges();
  }
  return std::nullopt;
}

// Adds one warning to the result once merging destroys the model, in place of silence.
class InflationWarning {
 public:
  explicit InflationWarning(double gamma) : inflation_(gamma) {}

  // After every merge, on every rank; rank 0 alone keeps the account and speaks, so growth() of the
  // others says nothing.
  void merged(Worker& self, const Merge& merge) {
    if (self.rank() != 0 || warned_) return;
    inflation_.merge(std::accumulate(merge.weight.begin(), merge.weight.end(), 0.0));
    if (inflation_.growth() < kInflationBound) return;
    warned_ = true;
    self.warn(
        fmt::format("{} merges alone have made the model {:.3g} times as long, {:.2g} % by the "
                    "last one: perturbed weights add up to more than 1 while updates stay unequal. "
                    "It may unlearn; see --delta 0, --gamma 0 or a smaller --pert-threshold",
                    inflation_.merges(), inflation_.growth(), 100 * inflation_.rate()));
  }

 private:
  Inflation inflation_;
  bool warned_ = false;
};

}  // namespace hetsgd
