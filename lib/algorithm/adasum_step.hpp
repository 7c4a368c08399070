// Adasum's step: the workers combine the updates that their optimizers make, not their gradients.
//
// Source : paper 001, section 4 (updates after the optimizer; inside a node a mean, across nodes
//          Adasum; optimizer state partitioned by layers), section 3.5 (per layer), figure 2
//          (orthogonality).
//   inside a node of m workers   g   = sum_i (b_i / b_node) g_i
//   every node                   d_k = what its optimizer makes of w with g, less w
//   across nodes                 w  <- w + AS(d_0, d_1, ...)
// Nodes are runs of m consecutive ranks; with m = 1 every worker is one. All ranks of a node have
// the same g, d and optimizer state (replicated), or each makes the d of its own layers
// (partitioned): AS then combines the parts of one rank of every node, and the results are
// broadcast inside the nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm/worker.hpp"
#include "collective/adasum.hpp"
#include "core/options.hpp"

namespace hetsgd {

struct AdasumOptions {
  enum class Scope { tensor, model };
  enum class State { replicated, partitioned };

  AdasumShape shape = AdasumShape::tree;
  Scope scope = Scope::tensor;
  int node_size = 1;  // m
  State state = State::replicated;
  std::uint64_t orthogonality_every = 100;  // iterations; 0: never

  void declare(OptionSet& set);
  // Errors (usage): combinations that make no sense, naming the option.
  void check(const Plan& plan) const;
};

class AdasumStep {
 public:
  // Collective. `weight` = b_i / b_node, this worker's share of its node's batch.
  AdasumStep(Worker& self, const AdasumOptions& options, double weight);

  // One update of the common model w from this worker's gradient; the same bits on all ranks.
  //
  // Every orthogonality_every-th call rank 0 records
  //   {"type": "orthogonality", "iteration": k, "tensor": [names], "value": [numbers]}
  // with ||AS||^2 / sum ||d||^2 per tensor (whatever the scope): 1 when the updates are orthogonal,
  // 1/nodes when they are equal; null for a tensor that no update moves.
  void operator()(Worker& self, Gradient& g, double learning_rate, Buffer& w);

 private:
  void make_delta(Worker& self, Gradient& g, double learning_rate, const Buffer& w);
  void make_part(Worker& self, double learning_rate, const Buffer& w);
  void share_parts();
  std::vector<double> norms(Worker& self, std::span<const float> delta);
  void record_orthogonality(Worker& self, std::vector<double> inputs,
                            const std::vector<double>& results);
  std::span<float> part() { return delta_.span().subspan(begin_, end_ - begin_); }
  double part_passes(double passes) const;  // of the part, in passes over the whole vector

  AdasumOptions o_;
  double weight_;
  std::unique_ptr<Comm> node_, across_;  // null: one rank per node; all workers
  std::vector<std::size_t> slices_;      // partitioned: where each rank's layers begin
  std::size_t begin_ = 0, end_ = 0;      // the part that this rank combines
  std::vector<std::size_t> tensors_;     // bounds of the part's layers, counted from begin_
  std::size_t first_tensor_ = 0;         // number of the part's first layer
  std::unique_ptr<AdasumAllReduce> all_reduce_;
  std::unique_ptr<Optimizer> optimizer_;  // partitioned: of the part
  Buffer delta_, mean_;
  std::vector<float> scratch_, host_;
  std::uint64_t iteration_ = 0;
};

}  // namespace hetsgd
