// How much merges alone make a model grow. Weights that add up to 1 + e, e > 0, stretch the merged
// model, and the momentum of the global model carries each stretch on: w' = (1 + e) w +
// gamma (w - w_p) grows by e / (1 - gamma) per merge in the end, to first order.
#pragma once

#include <cstdint>
#include <numeric>

#include "algorithm/merge.hpp"
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
  // The last merge's part of it, as a share.
  double rate() const { return growth_ / before_ - 1; }
  std::uint64_t merges() const { return merges_; }

 private:
  double gamma_;
  double growth_ = 1, before_ = 1;
  std::uint64_t merges_ = 0;
};

// Has the result and stderr say once that merging destroys the model, in place of silence.
class InflationWarning {
 public:
  explicit InflationWarning(double gamma) : inflation_(gamma) {}

  void merged(Worker& self, const Merge& merge) {
    if (self.rank() != 0 || warned_) return;
    inflation_.merge(std::accumulate(merge.weight.begin(), merge.weight.end(), 0.0));
    if (inflation_.growth() < kBound) return;
    warned_ = true;
    self.warn(
        fmt::format("{} merges alone have made the model {:.3g} times as long, {:.2g} % by the "
                    "last one: perturbed weights add up to more than 1 while updates stay unequal. "
                    "It may unlearn; see --delta 0, --pert-norm rms or --gamma 0",
                    inflation_.merges(), inflation_.growth(), 100 * inflation_.rate()));
  }

 private:
  static constexpr double kBound = 2;
  Inflation inflation_;
  bool warned_ = false;
};

}  // namespace hetsgd
