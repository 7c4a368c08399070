// Carries a plan out: forward and backward pass of a graph inside an arena. Tensors lie where the
// plan puts them. Offloads and fetches are copies to and from blocks of host memory, beside the
// kernels where the device can (linalg/host_blocks.hpp). A kernel that reads a tensor waits for its
// fetch, and memory is released when its offload is done.
//
//   a tensor   not there --allocate--> at its place --compute--> there, with values
//              there --offload--> copied out meanwhile --release, which awaits it--> not there
//              at its place --fetch--> copied in meanwhile --a step that uses it awaits it--> there
//
// Same bits : whatever the plan, the kernels, their order and the order of additions are the same,
//             and no kernel's arithmetic depends on an address. So every correct plan gives the
//             gradients of a plan without reuse. A map that is computed again comes from the same
//             numbers: parameters move in their node's own backward step, and dropout's mask is a
//             function of seed and draw.
// Wrong plan: a use of a tensor that is not there is a CheckFailure. A poisoned executor also fills
//             memory with NaN before its first use and after each release, and fails when a tensor
//             that is read holds that pattern, or an allocation lies on a tensor that is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/rank_index.hpp"
#include "linalg/host_blocks.hpp"
#include "memory/plan.hpp"
#include "model/network/node_math.hpp"

namespace hetsgd {

// The two ends of a computation: its input and its scores.
template <class Real>
struct GraphEnds {
  // X [batch x the graph's input], memory of the device, <- the samples.
  std::function<void(Real* X)> write_input;
  // Called at the softmax. Y <- the loss' gradient by the scores Z [batch x classes].
  std::function<void(const Real* Z, Real* Y)> read_scores;
};

template <class Real>
class PlanExecutor {
 public:
  // The plan must be recorded and fit. Device, step and plan outlive it. `lstm`: as in NodeMath.
  PlanExecutor(BasicDevice<Real>& device, const TrainingStep& training, const MemoryPlan& plan,
               bool poisoned = false, std::shared_ptr<LstmMath<Real>> lstm = nullptr);

  // Size of an arena with room for the plan, in elements of 4 bytes.
  std::size_t arena_size() const { return arena_size_; }

  // Both passes work in `arena`, arena_size() elements of the device. backward() continues where
  // forward() has ended, in the same arena.
  void forward(const GraphPass<Real>& pass, const GraphEnds<Real>& ends, Real* arena);
  void backward(const GraphPass<Real>& pass, Real* arena);
  // After forward(): what the node has kept for its backward pass; for a bn node its statistics.
  const Real* mask(int node) const { return place(training_.mask[at(node)]); }
  // The gradient of the input, if the plan has one. It is valid after the backward pass of the
  // first node; the plan without reuse keeps all tensors.
  const Real* input_gradient() const { return input_gradient_; }

 private:
  void carry_out(const Instruction& one, const GraphPass<Real>& pass, const GraphEnds<Real>* ends);
  void allocate(const Instruction& one);
  void release(const Instruction& one);
  void copy_out(int tensor);
  void copy_in(int tensor);
  // Work that the device is given from now on finds the tensor's copies done.
  void await_copies(int tensor);
  void compute(int number, const GraphPass<Real>& pass, const GraphEnds<Real>* ends);
  NodeTensors<Real> forward_tensors(const Step& step) const;
  NodeTensors<Real> backward_tensors(int number) const;
  Real* place(int tensor) const;
  std::size_t numbers(int tensor) const;
  void poison(Real* begin, std::size_t count) const;
  void check_whole(int tensor, int step) const;

  BasicDevice<Real>& device_;
  const TrainingStep& training_;
  const MemoryPlan& plan_;
  bool poisoned_;
  NodeMath<Real> math_;
  std::size_t arena_size_ = 0;
  std::size_t turn_ = 0;  // instructions of the forward pass
  Real* arena_ = nullptr;
  std::vector<Real*> places_;  // by tensor; null: not there
  BasicHostBlocks<Real>& blocks_;
  std::map<int, BasicHostBlock<Real>> host_;  // by tensor
  std::vector<std::uint64_t> copying_;        // by tensor: its copy in flight, 0: none
  const Real* input_gradient_ = nullptr;
};

}  // namespace hetsgd
