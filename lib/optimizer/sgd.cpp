// SGD with momentum:
//   g <- clip(g) + lambda w
//   sgd       w <- w - lr g
//   momentum  v <- mu v + g;  w <- w - lr v              (Polyak 1964)
//   nesterov  v <- mu v + g;  w <- w - lr (g + mu v)     (Nesterov 1983, in the form of Sutskever
//                                                         et al. 2013)

#include "optimizer/families.hpp"

namespace hetsgd {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : o_(options) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    const double clip = clip_factor(o_, device, g);
    device.axpby(w.size(), static_cast<float>(-learning_rate * clip), g.data(),
                 static_cast<float>(1 - learning_rate * o_.weight_decay), w.data());
  }

  double passes() const override { return 3 + clip_passes(o_); }

 private:
  OptimizerOptions o_;
};

class Momentum final : public Optimizer {
 public:
  Momentum(const OptimizerOptions& options, Device& device, std::size_t n)
      : o_(options), v_(zeros(device, n)) {}

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    const bool nesterov = o_.kind == OptimizerKind::nesterov;
    const auto lr = static_cast<float>(learning_rate), mu = static_cast<float>(o_.momentum);
    const rule::MomentumStep<float> step{.gradient = static_cast<float>(clip_factor(o_, device, g)),
                                         .decay = static_cast<float>(o_.weight_decay),
                                         .momentum = mu,
                                         .velocity = nesterov ? lr * mu : lr,
                                         .direct = nesterov ? lr : 0};
    device.apply(w.size(), step, g.data(), v_.data(), w.data());
  }

  double passes() const override { return 5 + clip_passes(o_); }

 private:
  OptimizerOptions o_;
  Buffer v_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, Device& device,
                                    std::size_t n) {
  if (options.kind == OptimizerKind::sgd) return std::make_unique<Sgd>(options);
  return std::make_unique<Momentum>(options, device, n);
}

}  // namespace hetsgd
