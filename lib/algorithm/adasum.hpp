// Adasum's step, for ssgd --reduce adasum: the workers combine the updates that their optimizers
// make, not their gradients. adasum.cpp gives equations and sources.
//
// Adasum, section 4. Here a node is a run of m consecutive ranks (--node-size), whatever machines
// they run on. Every rank belongs to two groups: the m ranks of its node, and the ranks with the
// same place in their nodes. With m = 2 and P = 6:
//
//   rank                 0 1 | 2 3 | 4 5
//   in the node          0 1   0 1   0 1     mean of gradients
//   across the nodes     {0,2,4}  {1,3,5}    Adasum of updates
//
//                gradient g_i (b_i samples)
//                   |  times b_i / b_node (n_i / n_node of losses, where rows have unequally many)
//   replicated      |  all_reduce in the node        partitioned  reduce_scatter in the node
//                   v                                             v
//                d = update of the whole model                 d = update of this rank's layers
//                   |  Adasum across nodes                        |  Adasum across nodes
//                   v                                             v  broadcast in the node
//                w <- w + AS(d, ...)                           w <- w + AS(d, ...)
//
// With m = 1 the left column alone remains, without its all_reduce. Replicated, the m ranks of a
// node make the same d, and m groups compute the same AS. Partitioned, each group computes 1/m of
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm/worker.hpp"
#include "collective/adasum.hpp"
#include "core/options.hpp"
#include "linalg/host_view.hpp"

namespace hetsgd {

struct AdasumOptions {
  // Scope: AS compares each parameter tensor by itself, each layer (its weight with its bias,
  // section 3.5), or the vector of all. State: the optimizer's state lies on every rank, or that of
  // each scope on one rank of a node.
  enum class Scope { tensor, layer, model };
  enum class State { replicated, partitioned };

  AdasumShape shape = AdasumShape::tree;
  Scope scope = Scope::tensor;
  int node_size = 1;  // m
  State state = State::replicated;
  std::uint64_t orthogonality_every = 100;  // iterations; 0: never

  void declare(OptionSet& set);
  // Throws Error(usage) naming the option for combinations that make no sense. Partitioned requires
  // nodes of several ranks. It excludes --adasum-scope model and --clip-norm, which need the whole
  // update on one rank.
  void check(const Plan& plan) const;
};

// One per worker, for all steps of a run: it keeps the groups and the scratch memory. Only the
// worker's main process calls it.
class AdasumStep {
 public:
  // Collective. `weight` = b_i / b_node, this worker's share of its node's batch. Partitioned: the
  // replica's optimizer is replaced by one for this rank's layers.
  AdasumStep(Worker& self, Replica& replica, const AdasumOptions& options, double weight);

  // One update of the common model, replica.w, from this worker's gradient; the same bits on all
  // ranks. Collective. It counts as one update of the run. replica.gradient stays as it is, so it
  // is never dense: sums are made in mean_. `batch`: of the gradient.
  //
  // At every orthogonality_every-th iteration rank 0 records
  //   {"type": "orthogonality", "iteration": k, "tensor": [names], "value": [numbers]}
  // with ||AS||^2 / sum ||d||^2 per tensor (whatever the scope): 1 when the updates are orthogonal,
  // 1/nodes when they are equal; null for a tensor that no update moves.
  void operator()(Worker& self, Replica& replica, const Batch& batch, double learning_rate,
                  std::uint64_t iteration);

 private:
  // This worker's share of its node's batch: by losses where batches have unequally many, which the
  // ranks of a node then sum first.
  double weight_of(Worker& self, const Batch& batch);
  // The two columns above, down to d.
  void make_delta(Worker& self, Replica& replica, double learning_rate);
  void make_part(Worker& self, Replica& replica, double learning_rate);
  void share_parts();
  std::vector<double> norms(Worker& self, std::span<const float> delta);
  void record_orthogonality(Worker& self, std::uint64_t iteration, std::vector<double> inputs,
                            const std::vector<double>& results);
  std::span<float> part() { return delta_.span().subspan(begin_, end_ - begin_); }
  double part_passes(double passes) const;  // of the part, in passes over the whole vector

  // The group inside the node and the one across nodes are Comms of their own, so that their
  // messages cannot meet those of ssgd.
  AdasumOptions o_;
  double weight_;
  std::unique_ptr<Comm> node_, across_;  // null: one rank per node; all workers
  std::vector<std::size_t> slices_;      // partitioned: where each rank's layers begin
  std::size_t begin_ = 0, end_ = 0;      // the part that this rank combines
  std::vector<std::size_t> tensors_;     // bounds of the part's layers, counted from begin_
  std::size_t first_tensor_ = 0;         // number of the part's first layer
  std::unique_ptr<AdasumAllReduce> all_reduce_;
  // d (only its part is combined), and the node's mean gradient (empty with m = 1).
  Buffer delta_, mean_;
  std::vector<float> scratch_;
  HostScratch host_;
};

}  // namespace hetsgd
