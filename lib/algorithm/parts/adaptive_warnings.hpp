// Warnings of adaptive during a run: one when merges alone have made the model grow, and one when
// the scaling of batches overshoots.
//
// Growth by merges alone: weights that add up to 1 + e, e > 0, stretch the merged model, and the
// momentum of the global model repeats each stretch. w' = (1 + e) w + gamma (w - w_p) finally grows
// by e / (1 - gamma) per merge, to first order. (With w = r^t, r^2 = (1 + e) r + gamma (r - 1),
// whose root near 1 is r = 1 + e / (1 - gamma).)
//
// adaptive's perturbation makes such weights (Adaptive SGD, algorithm 2: 1 + delta (u_max - u_min)
// / sum(u) in all) while updates stay unequal and the norms stay below the threshold. The model's
// length does not measure this growth, because learning changes it, too. So the recurrence runs on
// one scalar, as if nothing were learnt.
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

  // Accounts for a merge whose weights add up to `weight_sum`.
  void merge(double weight_sum) {
    const double next = weight_sum * growth_ + gamma_ * (growth_ - before_);
    before_ = growth_;
    growth_ = next;
    ++merges_;
  }

  // How many times longer the merges would have made a model that learns nothing:
  // g' = (sum of weights) g + gamma (g - g_p), from g = g_p = 1.
  double growth() const { return growth_; }
  // The relative growth of the last merge. Negative after a merge that shrinks the model.
  double rate() const { return growth_ / before_ - 1; }
  std::uint64_t merges() const { return merges_; }
  void fields(Archive& fields) {
    fields("growth", growth_);
    fields("before", before_);
    fields("merges", merges_);
  }

 private:
  double gamma_;
  double growth_ = 1, before_ = 1;
  std::uint64_t merges_ = 0;
};

// The user is warned from this growth by merges on. Beyond it more of the model's length comes from
// merging than from learning.
constexpr double kInflationBound = 2;

// Adds one warning to the result once merging destroys the model.
class InflationWarning {
 public:
  explicit InflationWarning(double gamma) : inflation_(gamma) {}

  // Called after every merge, on every rank. Only rank 0 keeps the account and warns, so growth()
  // of the other ranks is meaningless.
  void merged(Worker& self, const Merge& merge) {
    if (self.rank() != 0 || warned_) return;
    inflation_.merge(std::accumulate(merge.weight.begin(), merge.weight.end(), 0.0));
    if (inflation_.growth() < kInflationBound) return;
    warned_ = true;
    self.warn(fmt::format(
        "{} merges alone have multiplied the model's norm by {:.3g}, and the last one added {:.2g} "
        "%. Perturbed weights add up to more than 1 while updates stay unequal. The model may "
        "unlearn; try --delta 0, --gamma 0 or a smaller --pert-threshold",
        inflation_.merges(), inflation_.growth(), 100 * inflation_.rate()));
  }
  void fields(Archive& fields) {
    fields("inflation", inflation_);
    fields("warned", warned_);
  }

 private:
  Inflation inflation_;
  bool warned_ = false;
};

// Adds one warning to the result once the scaling of batches overshoots. A worker off the mean mu
// of updates is moved by beta |u - mu| samples. If a batch's time is proportional to its size,
// b |u / mu - 1| would compensate. The first is g = beta mu / b times the second. From g = 2 on the
// deviation grows until no move fits between b_min and b_max, and updates stay unequal.
class OvershootWarning {
 public:
  explicit OvershootWarning(double beta) : beta_(beta) {}

  // Called after every scaling, on every rank. Only rank 0 keeps the account and warns.
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
        fmt::format("the workers' updates stay unequal, from {} to {}: scaling changes a batch "
                    "{:.3g} times as much as needed, and settles only below {} times; try --beta "
                    "below {:.4g} or a smaller --mega-batch",
                    *least, *most, gain, kStable, beta_ * kStable / gain));
  }
  void fields(Archive& fields) {
    fields("overshoots", overshoots_);
    fields("warned", warned_);
  }

 private:
  static constexpr double kUnequal = 0.1;  // of the mean
  static constexpr int kStable = 2, kInARow = 4;

  double beta_;
  int overshoots_ = 0;  // overshoots in a row
  bool warned_ = false;
};

}  // namespace hetsgd
