// The accounts of a timeline: addresses, the busy times of the two servers, and the totals of its
// plan.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "core/rank_index.hpp"
#include "memory/plan.hpp"

namespace hetsgd {

// Times are in seconds from the start of the iteration. Tensors and steps are numbers of the
// training step.
class Ledger {
 public:
  // `arenas`: use Dymem's groups and arenas instead of best fit.
  Ledger(const PlanRequest& request, bool arenas);

  bool is_resident(int tensor) const { return blocks_[at(tensor)].resident; }
  // Returns whether the pool has room. If so, the tensor is resident then, and counts for this
  // step.
  bool allocate(int tensor, int step, double time);
  void release(int tensor, double time);
  // Drops a resident map that has not been used.
  void cancel(int tensor, double time);

  // Chooses the convolution algorithm of a step and takes its workspace while it computes. False if
  // the required workspace does not fit.
  bool take_workspace(int step, double time);
  void release_workspace(double time);

  // All three return the end time. compute_again runs the forward pass of a node before the step.
  double compute(int step, double start);
  double compute_again(int node, int step, double start);
  double transfer(InstructionKind kind, int tensor, int step, double not_before);
  double transfers_end() const { return transfers_end_; }
  // The end of the tensor's last transfer.
  double arrival(int tensor) const { return blocks_[at(tensor)].arrival_s; }

  // Notes that the request of a step cannot be met; returns false.
  bool fail(int tensor, int step);
  MemoryPlan finish(double iteration_s);

 private:
  struct Block {
    bool resident = false;
    std::uint64_t offset = 0;
    Mobility mobility = Mobility::movable;
    double arrival_s = 0;
  };
  using Interval = std::pair<double, double>;

  const ConvolutionAlgorithm& chosen(const std::vector<ConvolutionAlgorithm>& list, int node) const;
  double jittered(double seconds);
  void note_space(int step);
  void note(const Instruction& instruction);
  double overlap() const;

  const PlanRequest& request_;
  const TrainingStep& training_;
  std::unique_ptr<Pool> pool_;
  RandomStream random_;
  std::vector<Block> blocks_;  // by tensor
  MemoryPlan plan_;
  std::uint64_t live_ = 0;
  ConvolutionAlgorithm algorithm_;  // of the step that is computed
  std::uint64_t workspace_offset_ = 0, workspace_bytes_ = 0;
  double transfers_end_ = 0;
  int step_ = 1;  // the one that was computed last; releases are noted to it
  std::vector<Interval> computing_, transferring_;
};

}  // namespace hetsgd
