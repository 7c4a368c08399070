// Embedding tables inside the flat vector. Rows that no sample touched keep their values and state.
// The rule and its learning rate may differ from those of the dense parameters.
//
//   flat vector   | table | dense parameters ...         tables come first
//   rule            --table-optimizer   --optimizer
//
// Rules, element by element, so that columns can be split; fma, IEEE roots and divisions, so that
// CPU and GPU agree to the bit. No weight decay. g is the sum over all samples of the update.
//   sgd      w <- fma(-lr, g, w)
//   adagrad  h <- fma(g, g, h);  w <- fma(-lr, g / (sqrt(h) + epsilon), w)
//   adam     lazily, one step number t for all: where g is not 0,
//            m <- fma(beta1, m, (1 - beta1) g);  v <- fma(beta2, v, (1 - beta2) g^2)
//            w <- fma(-lr, m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon), w)
// An element is touched if its gradient is not 0. Once sums over workers have filled it, a flat
// vector has no other mark, and under sgd and adagrad 0 moves nothing.
#pragma once

#include <memory>
#include <vector>

#include "linalg/table_kernels.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

// The rule of these options for its t-th update, t = 1, 2, ... learning_rate: the run's, which
// table_rate scales for the rows. The options must have a rule for rows (checked).
RowRule<float> row_rule(const OptimizerOptions& options, double learning_rate, std::uint64_t t);
// Vectors of state that the rule keeps beside the rows: 0, 1 or 2.
std::size_t row_states(const OptimizerOptions& options);

// Whether an optimizer of these tensors needs the rules above. This is so if there is a table, and
// the optimizer of the whole vector would treat it differently or would need a pass over all rows.
bool needs_row_rule(const OptimizerOptions& options, const std::vector<Tensor>& tensors);

// The row rule for the tables, and make_optimizer() for all other tensors. Tables come first among
// the tensors (checked).
std::unique_ptr<Optimizer> make_with_row_rule(const OptimizerOptions& options, Device& device,
                                              std::size_t n, const std::vector<Tensor>& tensors);

}  // namespace hetsgd
