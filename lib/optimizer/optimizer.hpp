// Optimizers: the update of ONE replica from a dense gradient. State belongs to the replica and
// lives on its device. One file per family: sgd.cpp, adam.cpp (with adagrad), layerwise.cpp;
// row_rules.cpp for tables of embeddings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/archive.hpp"
#include "core/options.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

enum class OptimizerKind { sgd, momentum, nesterov, adagrad, adam, lars, lamb };

// The rule of embedding tables, see row_rules.hpp. same: the rule of the optimizer.
enum class TableRule { same, sgd, adagrad, adam };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0.9;      // mu
  double weight_decay = 0;    // lambda
  bool decoupled = false;     // adam: lambda shrinks w (AdamW) instead of adding to the gradient
  double clip_norm = 0;       // scales g down to this global norm; 0: off
  double beta1 = 0.9;         // adam, lamb
  double beta2 = 0.999;       // adam, lamb
  double epsilon = 1e-8;      // adagrad, adam, lamb
  double lars_trust = 0.001;  // eta of lars
  TableRule table_rule = TableRule::same;
  std::optional<double> table_learning_rate = {};  // none: the run's
  double table_rate = 1;  // the tables' learning rate over the run's; set when both are known

  void declare(OptionSet& set);
  void declare_tables(OptionSet& set);  // options of the rows of embedding tables
  // Throws Error(usage) for combinations of values that the range of one option cannot refuse.
  void validate() const;
  // Whether an update is w <- w - lr g and nothing else: a model's fused step does it without
  // building g.
  bool plain() const {
    return kind == OptimizerKind::sgd && weight_decay == 0 && clip_norm == 0 && table_rate == 1 &&
           (table_rule == TableRule::same || table_rule == TableRule::sgd);
  }
};

// A parameter tensor inside the flat vector, for optimizers that scale each by its own norms.
struct Tensor {
  std::size_t offset = 0, size = 0;
  std::size_t row = 0;  // a table of embeddings: elements of a row (row_rules.hpp); else 0
  bool decays = true;   // weight decay acts on it
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of w [n] with the gradient g [n], both memory of `device`. g stays as it is, so that
  // the zero rows of a sparse gradient stay zero.
  virtual void update(Device& device, double learning_rate, std::span<const float> g,
                      std::span<float> w) = 0;
  // The same for tables whose gradient is zero outside of rows[i] (host memory, ascending) in the
  // i-th table. Leaves all other rows alone, with the bits of update(). Default: update().
  virtual void update_touched(Device& device, double learning_rate, std::span<const float> g,
                              std::span<const std::vector<std::uint32_t>> rows, std::span<float> w);
  // Vectors of n elements that an update reads and writes, for the charge.
  virtual double passes() const = 0;
  // The state of its updates so far.
  virtual void fields(Archive& fields) = 0;
};

// Checks the options of tables against a model's tensors. Throws Error(usage) if there is no table,
// if the optimizer has no rule for rows, or if a norm would span two rules.
void check_row_rule(const OptimizerOptions& options, const std::vector<Tensor>& tensors);

// The file of each family gives formulas and sources. n: length of the flat vector that `tensors`
// tile.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Device& device,
                                          std::size_t n, const std::vector<Tensor>& tensors);

}  // namespace hetsgd
