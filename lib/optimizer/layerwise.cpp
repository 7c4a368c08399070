// Optimizers that scale the update of each tensor by its own norms, g after clipping:
//   lars  ratio = eta ||w|| / (||g|| + lambda ||w||)
//         v <- mu v + lr ratio (g + lambda w);  w <- w - v     (You, Gitman, Ginsburg 2017,
//                                                               algorithm 1)
//   lamb  m, v, m', v' as Adam's (adam.cpp) without weight decay
//         r = m' / (sqrt(v') + epsilon) + lambda w;  ratio = phi(||w||) / ||r||
//         w <- w - lr ratio r                                  (You et al. 2020, algorithm 2)
// phi is the identity. A ratio is 1 if a norm in it is zero, as for biases before their first
// update, or if the ratio is not a number: a diverged run shows in w. Every weight matrix and every
// bias is a tensor.

#include <cmath>

#include "optimizer/families.hpp"

namespace hetsgd {
namespace {

// numerator / denominator if both are positive, else 1.
double trust_ratio(double numerator, double denominator) {
  return numerator > 0 && denominator > 0 ? numerator / denominator : 1;
}

class Lars final : public Optimizer {
 public:
  Lars(const OptimizerOptions& options, Device& device, std::size_t n,
       const std::vector<Tensor>& tensors)
      : o_(options), tensors_(tensors), v_(zeros(device, n)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    const double clip = clip_factor(o_, device, g);
    for (const auto& [at, n, table, decays] : tensors_) {
      const double lambda = decays ? o_.weight_decay : 0;
      const double w_norm = std::sqrt(device.squared_norm(n, w.data() + at));
      const double g_norm = clip * std::sqrt(device.squared_norm(n, g.data() + at));
      const double decayed = g_norm > 0 ? g_norm + lambda * w_norm : 0;
      const double lr = learning_rate * trust_ratio(o_.lars_trust * w_norm, decayed);
      const rule::MomentumStep<float> step{.gradient = static_cast<float>(lr * clip),
                                           .decay = static_cast<float>(lr * lambda),
                                           .momentum = static_cast<float>(o_.momentum),
                                           .velocity = 1};
      device.apply(n, step, g.data() + at, v_.data() + at, w.data() + at);
    }
  }

  double passes() const override { return 7 + clip_passes(o_); }
  void fields(Archive& fields) override { fields("v", v_); }

 private:
  OptimizerOptions o_;
  std::vector<Tensor> tensors_;
  Buffer v_;
};

class Lamb final : public Optimizer {
 public:
  Lamb(const OptimizerOptions& options, Device& device, std::size_t n,
       const std::vector<Tensor>& tensors)
      : o_(options), tensors_(tensors), m_(zeros(device, n)), v_(zeros(device, n)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    rule::Moments<float> factors = moments(o_, ++t_, clip_factor(o_, device, g));
    for (const auto& [at, n, table, decays] : tensors_) {
      factors.shrink = decays ? static_cast<float>(o_.weight_decay) : 0;
      const double w_norm = std::sqrt(device.squared_norm(n, w.data() + at));
      const double r_norm =
          std::sqrt(device.apply_norm(n, rule::MomentUpdate<float>{factors}, g.data() + at,
                                      w.data() + at, m_.data() + at, v_.data() + at));
      const double step = learning_rate * trust_ratio(w_norm, r_norm);
      device.apply(n, rule::MomentApply<float>{factors, static_cast<float>(step)}, m_.data() + at,
                   v_.data() + at, w.data() + at);
    }
  }

  double passes() const override { return 11 + clip_passes(o_); }
  void fields(Archive& fields) override {
    fields("m", m_);
    fields("v", v_);
    fields("t", t_);
  }

 private:
  OptimizerOptions o_;
  std::vector<Tensor> tensors_;
  Buffer m_, v_;
  std::uint64_t t_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options, Device& device, std::size_t n,
                                     const std::vector<Tensor>& tensors) {
  return std::make_unique<Lars>(options, device, n, tensors);
}

std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options, Device& device, std::size_t n,
                                     const std::vector<Tensor>& tensors) {
  return std::make_unique<Lamb>(options, device, n, tensors);
}

}  // namespace hetsgd
