// Adam, its t-th update (t = 1, 2, ...; all operations on vectors element by element):
//   g <- clip(g) + lambda w
//   m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
//   m' = m / (1 - beta1^t);  v' = v / (1 - beta2^t)
//   w <- w - lr m' / (sqrt(v') + epsilon)                (Kingma & Ba 2015, algorithm 1)
// --decoupled-weight-decay (AdamW): lambda w stays out of g, and
//   w <- w - lr (m' / (sqrt(v') + epsilon) + lambda w)   (Loshchilov & Hutter 2019, algorithm 2)
// where the paper's schedule multiplier and step size are one number, lr.
#include <cmath>

#include "optimizer/families.hpp"

namespace hetsgd {

namespace {

class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, Device& device, std::size_t n,
       const std::vector<Tensor>& tensors)
      : o_(options),
        runs_(decay_runs(options, n, tensors)),
        m_(zeros(device, n)),
        v_(zeros(device, n)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    rule::MomentStep<float> step{moments(o_, ++t_, clip_factor(o_, device, g)),
                                 static_cast<float>(learning_rate)};
    for (const auto& [at, n, decay] : runs_) {
      (o_.decoupled ? step.moments.shrink : step.moments.decay) = decay;
      device.apply(n, step, g.data() + at, m_.data() + at, v_.data() + at, w.data() + at);
    }
  }

  double passes() const override { return 7 + clip_passes(o_); }
  void fields(Archive& fields) override {
    fields("m", m_);
    fields("v", v_);
    fields("t", t_);
  }

 private:
  OptimizerOptions o_;
  std::vector<DecayRun> runs_;
  Buffer m_, v_;
  std::uint64_t t_ = 0;
};

}  // namespace

rule::Moments<float> moments(const OptimizerOptions& options, std::uint64_t t, double clip) {
  const auto steps = static_cast<double>(t);
  return {.gradient = static_cast<float>(clip),
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .fresh1 = static_cast<float>(1 - options.beta1),
          .fresh2 = static_cast<float>(1 - options.beta2),
          .first = static_cast<float>(1 / (1 - std::pow(options.beta1, steps))),
          .second = static_cast<float>(1 / (1 - std::pow(options.beta2, steps))),
          .epsilon = static_cast<float>(options.epsilon)};
}

std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options, Device& device, std::size_t n,
                                     const std::vector<Tensor>& tensors) {
  return std::make_unique<Adam>(options, device, n, tensors);
}

// AdaGrad (Duchi, Hazan, Singer 2011, figure 1, with diagonal matrices); element by element:
//   g <- clip(g) + lambda w
//   h <- h + g^2;  w <- w - lr g / (sqrt(h) + epsilon)
// epsilon stands outside of the root, as in PyTorch. An element without gradient stays as it is, to
// the bit, so rows of tables that no sample touched need no rule of their own (row_rules.cpp).

namespace {

class AdaGrad final : public Optimizer {
 public:
  AdaGrad(const OptimizerOptions& options, Device& device, std::size_t n,
          const std::vector<Tensor>& tensors)
      : o_(options), runs_(decay_runs(options, n, tensors)), h_(zeros(device, n)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    rule::AdaGradStep<float> step{.gradient = static_cast<float>(clip_factor(o_, device, g)),
                                  .step = static_cast<float>(learning_rate),
                                  .epsilon = static_cast<float>(o_.epsilon)};
    for (const auto& [at, n, decay] : runs_) {
      step.decay = decay;
      device.apply(n, step, g.data() + at, h_.data() + at, w.data() + at);
    }
  }

  double passes() const override { return 5 + clip_passes(o_); }
  void fields(Archive& fields) override { fields("h", h_); }

 private:
  OptimizerOptions o_;
  std::vector<DecayRun> runs_;
  Buffer h_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options, Device& device,
                                        std::size_t n, const std::vector<Tensor>& tensors) {
  return std::make_unique<AdaGrad>(options, device, n, tensors);
}

}  // namespace hetsgd
