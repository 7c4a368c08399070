#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "optimizer/families.hpp"
#include "optimizer/row_rules.hpp"

namespace hetsgd {

void OptimizerOptions::declare(OptionSet& set) {
  set.add_choice("optimizer", kind,
                 {{"sgd", OptimizerKind::sgd},
                  {"momentum", OptimizerKind::momentum},
                  {"nesterov", OptimizerKind::nesterov},
                  {"adagrad", OptimizerKind::adagrad},
                  {"adam", OptimizerKind::adam},
                  {"lars", OptimizerKind::lars},
                  {"lamb", OptimizerKind::lamb}},
                 "Optimizer, which turns a gradient into an update of the parameters.");
  set.add("momentum", momentum,
          "Momentum coefficient: share of the last update that the next one keeps.")
      .symbol("mu")
      .range(0, 1)
      .needs("optimizer", {"momentum", "nesterov", "lars"});
  set.add("weight_decay", weight_decay,
          "L2 penalty on the parameters. lamb and --decoupled-weight-decay shrink the parameters "
          "directly instead.")
      .symbol("lambda")
      .at_least(0);
  set.add("decoupled_weight_decay", decoupled,
          "Apply --weight-decay to the parameters alone, not to Adam's moments (AdamW).")
      .needs("optimizer", {"adam"});
  set.add("clip_norm", clip_norm,
          "Largest norm of a gradient. A gradient with a larger norm is scaled down to it.")
      .at_least(0)
      .zero_word("off");
  set.add("beta1", beta1, "Decay rate of the running mean of gradients, below 1.")
      .symbol("beta_1")
      .range(0, 1)
      .needs("optimizer", {"adam", "lamb"});
  set.add("beta2", beta2, "Decay rate of the running mean of squared gradients, below 1.")
      .symbol("beta_2")
      .range(0, 1)
      .needs("optimizer", {"adam", "lamb"});
  set.add("epsilon", epsilon,
          "Constant added to the root of the sum (adagrad) or mean (adam, lamb) of squared "
          "gradients.")
      .symbol("epsilon")
      .above(0)
      .needs("optimizer", {"adagrad", "adam", "lamb"});
  set.add("lars_trust", lars_trust,
          "Trust coefficient: factor on the learning rate of each tensor.")
      .symbol("eta")
      .above(0)
      .needs("optimizer", {"lars"});
}

void OptimizerOptions::declare_tables(OptionSet& set) {
  set.add_choice("table_optimizer", table_rule,
                 {{"same", TableRule::same},
                  {"sgd", TableRule::sgd},
                  {"adagrad", TableRule::adagrad},
                  {"adam", TableRule::adam}},
                 "Optimizer of the embedding rows that samples touched. same: --optimizer, which "
                 "must then be sgd, adagrad or adam.");
  set.add("table_learning_rate", table_learning_rate,
          "Learning rate of embedding rows for a mini-batch of --batch-size samples. auto: "
          "--learning-rate.")
      .above(0);
}

void OptimizerOptions::validate() const {
  if (decoupled && kind != OptimizerKind::adam) {
    refuse("--decoupled-weight-decay", "another optimizer than adam", "--optimizer adam",
           "lamb always decouples weight decay; the others add it to the gradient");
  }
  for (const auto& [name, value] : {std::pair("--beta1", beta1), std::pair("--beta2", beta2)}) {
    if (value >= 1) throw usage_error("{}: found {}, expected a number below 1", name, value);
  }
}

void Optimizer::update_touched(Device& device, double learning_rate, std::span<const float> g,
                               std::span<const std::vector<std::uint32_t>>, std::span<float> w) {
  update(device, learning_rate, g, w);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Device& device,
                                          std::size_t n, const std::vector<Tensor>& tensors) {
  if (needs_row_rule(options, tensors)) return make_with_row_rule(options, device, n, tensors);
  switch (options.kind) {
    case OptimizerKind::sgd:
    case OptimizerKind::momentum:
    case OptimizerKind::nesterov:
      return make_sgd(options, device, n, tensors);
    case OptimizerKind::adagrad:
      return make_adagrad(options, device, n, tensors);
    case OptimizerKind::adam:
      return make_adam(options, device, n, tensors);
    case OptimizerKind::lars:
      return make_lars(options, device, n, tensors);
    case OptimizerKind::lamb:
      return make_lamb(options, device, n, tensors);
  }
  HETSGD_CHECK(false);
}

double clip_factor(const OptimizerOptions& options, Device& device, std::span<const float> g) {
  if (options.clip_norm <= 0) return 1;
  const double norm = std::sqrt(device.squared_norm(g.size(), g.data()));
  return norm > options.clip_norm ? options.clip_norm / norm : 1;
}

std::vector<DecayRun> decay_runs(const OptimizerOptions& options, std::size_t n,
                                 const std::vector<Tensor>& tensors) {
  const auto decay = static_cast<float>(options.weight_decay);
  const bool all = std::ranges::all_of(tensors, &Tensor::decays);
  if (all || decay == 0) return {{0, n, decay}};
  std::vector<DecayRun> runs;
  for (const Tensor& tensor : tensors) {
    const float own = tensor.decays ? decay : 0;
    if (runs.empty() || runs.back().decay != own) runs.push_back({tensor.offset, 0, own});
    runs.back().size += tensor.size;
  }
  return runs;
}

Buffer zeros(Device& device, std::size_t n) {
  Buffer buffer(device, n);
  device.fill(n, 0.0F, buffer.data());
  return buffer;
}

}  // namespace hetsgd
