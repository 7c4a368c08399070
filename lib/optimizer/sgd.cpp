#include "optimizer/optimizer.hpp"

namespace hetsgd {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(Device& device, std::size_t n, double momentum, double weight_decay)
      : momentum_(static_cast<float>(momentum)), weight_decay_(static_cast<float>(weight_decay)) {
    if (momentum == 0 && weight_decay == 0) return;
    velocity_.reset(device, n);
    device.fill(n, 0.0F, velocity_.data());
  }

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    const float rate = static_cast<float>(learning_rate);
    const float* direction = g.data();
    if (velocity_.size() > 0) {
      device.axpby(w.size(), 1.0F, g.data(), momentum_, velocity_.data());  // v <- mu v + g
      if (weight_decay_ != 0) {
        device.axpby(w.size(), weight_decay_, w.data(), 1.0F, velocity_.data());  // ... + lambda w
      }
      direction = velocity_.data();
    }
    device.axpby(w.size(), -rate, direction, 1.0F, w.data());  // w <- w - lr v
  }

  double passes() const override {
    if (velocity_.size() == 0) return 3;
    return weight_decay_ != 0 ? 9 : 6;
  }

 private:
  float momentum_, weight_decay_;
  Buffer velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd_optimizer(Device& device, std::size_t n, double momentum,
                                              double weight_decay) {
  return std::make_unique<SgdOptimizer>(device, n, momentum, weight_decay);
}

}  // namespace hetsgd
