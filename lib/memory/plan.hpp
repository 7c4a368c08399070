// A plan of one training step: where every tensor lies, what moves when, and what that costs.
//
//   Graph (graph/) --training_step()--> TrainingStep: tensors, and the steps that use them
//     TrainingStep, DeviceRates --step_times()--> StepTimes
//     TrainingStep, StepTimes, a capacity = PlanRequest --Policy::plan()--> MemoryPlan
//       MemoryPlan --PlanExecutor (model/network/execute.hpp)--> a gradient
//
// Policy::plan() runs the timeline (policy.hpp) once or several times. The policy says what moves
// and when, the timeline keeps both clocks, and its ledger the addresses in a pool.
//
// Execution : `instructions`, in the planner's order, are all that a device needs: offsets,
//             transfers, computations and releases. Times are predictions; an executor orders
//             instructions by the tensors and addresses that they share, not by the clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/units.hpp"
#include "graph/work.hpp"
#include "memory/pool.hpp"
#include "memory/training_step.hpp"

namespace hetsgd {

// Seconds of a step: the part that the convolution algorithm's speed divides, and the rest.
struct StepTime {
  double convolution_s = 0, other_s = 0;
};

// The times of a training step on a device and its link; memory/ knows no profiles.
struct StepTimes {
  std::vector<StepTime> steps;  // by number; [0] is unused
  double link_latency_s = 0;
  double link_bytes_per_s = 1;
  double transfer_s(std::uint64_t bytes) const {
    return link_latency_s + static_cast<double>(bytes) / link_bytes_per_s;
  }
};

// Which convolution algorithm runs. memory: one without workspace. performance: the fastest, whose
// workspace is required. dynamic: the fastest whose workspace fits when the step begins (Dymem,
// 4.2.2).
enum class ConvolutionMode { memory, performance, dynamic };

// How Dymem handles a shortage of memory. cancel: the forward pass waits for offloads in flight,
// the backward pass drops resident prefetches. restart: the plan fails, as in the paper, which then
// starts the iteration again (minimum.hpp).
enum class OnShortage { cancel, restart };

// The tensor cache of SuperNeurons (its section 3.3.2). off: outputs of convolutions move. lru: the
// least recently used map moves, and only when memory runs short.
enum class TensorCache { off, lru };

// Recomputation in SuperNeurons (its section 3.4; superneurons.hpp). none: maps between
// checkpoints stay. cost: they are dropped in the forward pass and computed again.
enum class Recomputation { none, cost };

// The input of a planner. `training` and `times` must outlive the call; `capacity` is in bytes.
struct PlanRequest {
  const TrainingStep* training = nullptr;
  const StepTimes* times = nullptr;
  std::uint64_t capacity = 0;
  ConvolutionMode convolution = ConvolutionMode::memory;
  // By node: how many of its algorithms, fastest first, are skipped (vDNN's search). Empty: none.
  // Used with `performance`.
  std::vector<int> lowered = {};
  int prefetch_convs = 2;  // Dymem's window
  bool best_fit = false;   // Dymem without arenas
  OnShortage on_shortage = OnShortage::cancel;
  TensorCache tensor_cache = TensorCache::off;
  Recomputation recompute = Recomputation::none;
  std::optional<std::uint64_t> allocation_order = std::nullopt;  // seed of shuffled allocations
  double jitter = 0;  // sigma of a lognormal factor on every time
  std::uint64_t jitter_seed = 0;
  bool record = false;  // record instructions and steps, else only totals
};

// recompute: the forward pass of the node whose feature map is the tensor, run before the step.
enum class InstructionKind { allocate, compute, recompute, offload, fetch, release };

struct Instruction {
  InstructionKind kind;
  int step;
  int tensor = -1;  // compute: none; a workspace: kWorkspaceTensor
  std::uint64_t offset = 0, bytes = 0;
  double start_s = 0, end_s = 0;
  Mobility mobility = Mobility::workspace;      // allocate, release
  std::uint64_t used_bytes = 0, gap_bytes = 0;  // of the pool after the instruction
  bool operator==(const Instruction&) const = default;
};
inline constexpr int kWorkspaceTensor = -2;

// A capacity that no training step exhausts.
inline constexpr std::uint64_t kAmpleBytes = std::uint64_t{1} << 50;

// One step of a recorded plan.
struct StepRecord {
  double start_s = 0, seconds = 0;
  std::uint64_t live_bytes = 0, used_bytes = 0;  // maxima during the step
};

// The request that did not fit; the plan ended there.
struct Shortage {
  int step = 0;
  std::uint64_t request_bytes = 0;
  double unusable = 0;  // U_f of the request
};

// The result of a planner.
struct MemoryPlan {
  std::optional<Shortage> shortage;  // empty: the plan fits; else it ends there
  std::uint64_t peak_bytes = 0, backward_peak_bytes = 0, peak_live_bytes = 0;
  int peak_live_step = 0;
  double fragmentation_at_peak = 0;  // 1 - live / used
  double largest_unusable = 0;       // of any request
  std::uint64_t smallest_gap_bytes = 0;
  std::uint64_t offloaded_bytes = 0, fetched_bytes = 0, cancelled_bytes = 0;
  double recomputed_operations = 0;
  std::uint64_t workspace_peak_bytes = 0;
  double compute_s = 0, transfer_s = 0, overlap_s = 0, iteration_s = 0;
  double convolution_s = 0;                         // of all conv steps
  std::array<int, kConvolutionKinds> algorithms{};  // number of conv steps that used each
  std::vector<StepRecord> steps;                    // by number, if recorded; [0] is unused
  std::vector<Instruction> instructions;            // if recorded

  bool fits() const { return !shortage.has_value(); }
  double idle_s() const { return iteration_s - compute_s - transfer_s + overlap_s; }
};

// How fast a device and its link are.
struct DeviceRates {
  std::function<Seconds(const Work&)> seconds;  // additive in the parts of Work
  // A convolution with few filters or short sums uses only a part of the device. Its operations
  // count (1 + half_channels / Cout)(1 + half_depth / K) times.
  double half_channels = 0, half_depth = 0;
  double link_latency_s = 0, link_bytes_per_s = 1;
};

// How many times the operations of this node count; 1 for every node but a convolution.
double convolution_factor(const Graph& graph, int node, const DeviceRates& rates);

StepTimes step_times(const TrainingStep& training, const DeviceRates& rates);

// A tensor has memory from its first to its last use in the forward pass, best fit, and nothing
// moves. The statistics of bn stay until the end. Only instructions and the peak are set.
MemoryPlan forward_plan(const TrainingStep& training);

}  // namespace hetsgd
