// AdaGrad (Duchi, Hazan, Singer 2011, figure 1, with diagonal matrices); element by element:
//   g <- clip(g) + lambda w
//   h <- h + g^2;  w <- w - lr g / (sqrt(h) + epsilon)
// epsilon stands outside of the root, as in PyTorch. An element without gradient stays as it is, to
// the bit, so rows of tables that no sample touched need no rule of their own (row_rules.cpp).

#include "optimizer/families.hpp"

namespace hetsgd {
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
