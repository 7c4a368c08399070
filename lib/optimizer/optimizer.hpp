// Optimizers: the update of ONE replica from a dense gradient. State belongs to the replica and
// lives on its device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/options.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

enum class OptimizerKind { sgd, momentum, nesterov };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0.9;    // mu
  double weight_decay = 0;  // lambda, an L2 penalty
  double clip_norm = 0;     // scales g down to this global norm; 0: off

  void declare(OptionSet& set);
  // w <- w - lr g and nothing else: a model's fused step does it without building g.
  bool plain() const { return kind == OptimizerKind::sgd && weight_decay == 0 && clip_norm == 0; }
};

// A parameter tensor inside the flat vector, for optimizers that scale each by its own norms.
struct Tensor {
  std::size_t offset = 0, size = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of w [n] with the gradient g [n], both memory of `device`. g may be changed
  // (clipped, decayed).
  virtual void update(Device& device, double learning_rate, std::span<float> g,
                      std::span<float> w) = 0;
  // How many vectors of n numbers an update reads and writes, for the charge.
  virtual double passes() const = 0;
};

// Formulas and sources stand beside each kind in its file. n: length of the flat vector that
// `tensors` tile.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Device& device,
                                          std::size_t n, const std::vector<Tensor>& tensors);

}  // namespace hetsgd
