// Optimizers: the update of ONE replica from a dense gradient. State belongs to the replica and
// lives on its device.
#pragma once

#include <memory>
#include <span>

#include "linalg/device.hpp"

namespace hetsgd {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of w [n] with the gradient g [n], both memory of `device`.
  virtual void update(Device& device, double learning_rate, std::span<const float> g,
                      std::span<float> w) = 0;
  // How many vectors of n numbers an update reads and writes, for the charge.
  virtual double passes() const = 0;
};

// v <- mu v + g + lambda w;  w <- w - lr v  (Polyak 1964, with L2 weight decay). mu = lambda = 0: w
// <- w - lr g.
std::unique_ptr<Optimizer> make_sgd_optimizer(Device& device, std::size_t n, double momentum,
                                              double weight_decay);

}  // namespace hetsgd
