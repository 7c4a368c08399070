// What adaptive tells its user during a run: once when merges alone have made the model grow, and
// once when the scaling of batches overshoots.
//
// How much merges alone make a model grow: weights that add up to 1 + e, e > 0, stretch the merged
// model, and the momentum of the global model carries each stretch on: w' = (1 + e) w +
// gamma (w - w_p) grows by e / (1 - gamma) per merge in the end, to first order. (With
// w = r^t, r^2 = (1 + e) r + gamma (r - 1), whose root near 1 is r = 1 + e / (1 - gamma).)
//
// adaptive's perturbation makes such weights (paper 000, algorithm 2: 1 + delta (u_max - u_min) /
// sum(u) in all), as long as updates stay unequal and the norms below the threshold. The model's
// length is no measure of it, because learning moves it too: so the recurrence is run on one
// number, as if nothing were learnt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

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

// Adds one warning to the result once the scaling of batches overshoots. A worker off the mean mu of
// updates is moved by beta |u - mu| samples; b |u / mu - 1| would make up for it where a batch takes
// as long as it is large. The first is g = beta mu / b times the second; from g = 2 on the deviation
// grows until no move fits between b_min and b_max, and updates stay unequal.
class OvershootWarning {
 public:
  explicit OvershootWarning(double beta) : beta_(beta) {}

  // After every scaling, on every rank; rank 0 alone keeps the account and speaks.
  void scaled(Worker& self, const Merge& merge) {
    if (self.rank() != 0 || warned_) return;
    const auto [least, most] = std::ranges::minmax_element(merge.updates);
    const auto sum = std::accumulate(merge.updates.begin(), merge.updates.end(), 0.0);
    const double mu = sum / static_cast<double>(merge.updates.size());
    const auto b = merge.batch_size[static_cast<std::size_t>(most - merge.updates.begin())];
    const double gain = beta_ * mu / static_cast<double>(b);
    const bool overshoots = static_cast<double>(*most - *least) > kUnequal * mu && gain > kStable;
    overshoots_ = overshoots ? overshoots_ + 1 : 0;
    if (overshoots_ < kInARow) return;
    warned_ = true;
    self.warn(
        fmt::format("the workers' updates stay unequal, from {} to {}: scaling changes a "
                    "batch {:.3g} times as much as would make up for it, and settles below "
                    "{} only; see --beta (below {:.4g}) or a smaller --mega-batch",
                    *least, *most, gain, kStable, beta_ * kStable / gain));
  }

 private:
  static constexpr double kUnequal = 0.1;  // of the mean
  static constexpr int kStable = 2, kInARow = 4;

  double beta_;
  int overshoots_ = 0;  // scalings in a row
  bool warned_ = false;
};

}  // namespace hetsgd
