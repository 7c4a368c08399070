// SGD with momentum:
//   g <- clip(g) + lambda w   (no lambda in tensors that do not decay, here and in the other files)
//   sgd       w <- w - lr g
//   momentum  v <- mu v + g;  w <- w - lr v              (Polyak 1964)
//   nesterov  v <- mu v + g;  w <- w - lr (g + mu v)     (Nesterov 1983, in the form of Sutskever
//                                                         et al. 2013)

#include <utility>

#include "optimizer/families.hpp"

namespace hetsgd {
namespace {

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<DecayRun> runs)
      : o_(options), runs_(std::move(runs)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    const double clip = clip_factor(o_, device, g);
    for (const auto& [at, n, decay] : runs_) {
      const double lambda = decay == 0 ? 0 : o_.weight_decay;
      device.axpby(n, static_cast<float>(-learning_rate * clip), g.data() + at,
                   static_cast<float>(1 - learning_rate * lambda), w.data() + at);
    }
  }

  double passes() const override { return 3 + clip_passes(o_); }
  void fields(Archive&) override {}

 private:
  OptimizerOptions o_;
  std::vector<DecayRun> runs_;
};

class Momentum final : public Optimizer {
 public:
  Momentum(const OptimizerOptions& options, Device& device, std::size_t n,
           std::vector<DecayRun> runs)
      : o_(options), runs_(std::move(runs)), v_(zeros(device, n)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    const bool nesterov = o_.kind == OptimizerKind::nesterov;
    const auto lr = static_cast<float>(learning_rate), mu = static_cast<float>(o_.momentum);
    rule::MomentumStep<float> step{.gradient = static_cast<float>(clip_factor(o_, device, g)),
                                   .momentum = mu,
                                   .velocity = nesterov ? lr * mu : lr,
                                   .direct = nesterov ? lr : 0};
    for (const auto& [at, n, decay] : runs_) {
      step.decay = decay;
      device.apply(n, step, g.data() + at, v_.data() + at, w.data() + at);
    }
  }

  double passes() const override { return 5 + clip_passes(o_); }
  void fields(Archive& fields) override { fields("v", v_); }

 private:
  OptimizerOptions o_;
  std::vector<DecayRun> runs_;
  Buffer v_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, Device& device, std::size_t n,
                                    const std::vector<Tensor>& tensors) {
  std::vector<DecayRun> runs = decay_runs(options, n, tensors);
  if (options.kind == OptimizerKind::sgd) return std::make_unique<Sgd>(options, std::move(runs));
  return std::make_unique<Momentum>(options, device, n, std::move(runs));
}

}  // namespace hetsgd
