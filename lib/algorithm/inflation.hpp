// How much merges alone make a model grow. Weights that add up to 1 + e, e > 0, stretch the merged
// model, and the momentum of the global model carries each stretch on: w' = (1 + e) w +
// gamma (w - w_p) grows by e / (1 - gamma) per merge in the end, to first order.
#pragma once

#include <cstdint>

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

}  // namespace hetsgd
