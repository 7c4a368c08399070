// SGD with momentum:
//   g <- clip(g) + lambda w
//   sgd       w <- w - lr g
//   momentum  v <- mu v + g;  w <- w - lr v              (Polyak 1964)
//   nesterov  v <- mu v + g;  w <- w - lr (g + mu v)     (Nesterov 1983, in the form of Sutskever
//   2013)

#include <cmath>

#include "optimizer/optimizer.hpp"

namespace hetsgd {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const OptimizerOptions& options, Device& device, std::size_t n) : o_(options) {
    if (o_.kind == OptimizerKind::sgd) return;
    velocity_.reset(device, n);
    device.fill(n, 0.0F, velocity_.data());
  }

  void update(Device& device, double learning_rate, std::span<float> g,
              std::span<float> w) override {
    const std::size_t n = w.size();
    const auto lr = static_cast<float>(learning_rate), mu = static_cast<float>(o_.momentum);
    if (o_.clip_norm > 0) {
      const double norm = std::sqrt(device.squared_norm(n, g.data()));
      const auto factor = static_cast<float>(o_.clip_norm / norm);
      if (norm > o_.clip_norm) device.axpby(n, factor, g.data(), 0.0F, g.data());
    }
    if (o_.weight_decay != 0) {
      device.axpby(n, static_cast<float>(o_.weight_decay), w.data(), 1.0F, g.data());
    }
    if (o_.kind == OptimizerKind::sgd) return device.axpby(n, -lr, g.data(), 1.0F, w.data());
    device.axpby(n, 1.0F, g.data(), mu, velocity_.data());
    if (o_.kind == OptimizerKind::nesterov) {
      device.axpby(n, -lr, g.data(), 1.0F, w.data());
      device.axpby(n, -lr * mu, velocity_.data(), 1.0F, w.data());
    } else {
      device.axpby(n, -lr, velocity_.data(), 1.0F, w.data());
    }
  }

  double passes() const override {
    const double update = o_.kind == OptimizerKind::sgd        ? 3
                          : o_.kind == OptimizerKind::momentum ? 6
                                                               : 9;
    return update + (o_.clip_norm > 0 ? 3 : 0) + (o_.weight_decay != 0 ? 3 : 0);
  }

 private:
  OptimizerOptions o_;
  Buffer velocity_;
};

}  // namespace

void OptimizerOptions::declare(OptionSet& set) {
  set.add_choice("optimizer", kind,
                 {{"sgd", OptimizerKind::sgd},
                  {"momentum", OptimizerKind::momentum},
                  {"nesterov", OptimizerKind::nesterov}},
                 "how a replica turns a gradient into an update");
  set.add("momentum", momentum, "momentum of the optimizers momentum and nesterov")
      .symbol("mu")
      .range(0, 1);
  set.add("weight_decay", weight_decay, "L2 penalty added to the gradient")
      .symbol("lambda")
      .at_least(0);
  set.add("clip_norm", clip_norm, "largest norm of a gradient, longer ones are scaled down; 0: off")
      .at_least(0);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Device& device,
                                          std::size_t n, const std::vector<Tensor>&) {
  return std::make_unique<SgdOptimizer>(options, device, n);
}

}  // namespace hetsgd
