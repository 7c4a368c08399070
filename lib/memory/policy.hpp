// The decisions of a policy; the timeline (run_timeline) does the rest. Each policy has a file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/non_copyable.hpp"
#include "memory/plan.hpp"

namespace hetsgd {

// The state of a timeline that a prefetch rule sees at the start of a backward step.
class FetchQueue {
 public:
  virtual ~FetchQueue() = default;
  // Whether a feature map is only on the host, will be used, and has no transfer queued or in
  // flight.
  virtual bool is_absent(int tensor) const = 0;
  virtual bool was_fetched(int tensor) const = 0;
  virtual void push(int tensor) = 0;
  // The lowest forward step that the search has reached, so that the search of the next backward
  // step can continue there. Initially it is beyond all steps.
  virtual int& searched() = 0;
};

// When the offload of a map is queued.
enum class OffloadTrigger { first_consumer, last_consumer, production_end };
// How computing and transfers overlap. asynchronous: both servers run freely. step_barrier: every
// step waits for both. none: one runs after the other.
enum class Overlap { asynchronous, step_barrier, none };

// Properties of a policy that do not depend on the network.
struct PolicyTraits {
  std::string name;
  OffloadTrigger trigger = OffloadTrigger::first_consumer;
  Overlap overlap = Overlap::asynchronous;
  bool groups_tensors = false;  // Dymem's groups and arenas; else best fit
  bool cancels = false;         // resident prefetches may be dropped when memory runs short
  bool blocks = true;           // a prefetch that does not fit blocks those behind it, else it is
                                // passed over
};

// The base class is a policy that moves nothing.
class Policy : NonCopyable {
 public:
  explicit Policy(PolicyTraits traits) : traits_(std::move(traits)) {}
  virtual ~Policy() = default;
  const PolicyTraits& traits() const { return traits_; }
  const std::string& name() const { return traits_.name; }
  // Whether its pool is Dymem's arenas, not best fit.
  bool has_arenas(const PlanRequest& request) const {
    return traits_.groups_tensors && !request.best_fit;
  }

  // Whether a feature map that the backward pass uses is moved.
  virtual bool moves(const TrainingStep& /*training*/, const StepTensor& /*tensor*/) const {
    return false;
  }
  // Whether nothing moves while there is room, and then the least recently used map goes
  // (TensorCache::lru).
  virtual bool caches(const PlanRequest& /*request*/) const { return false; }
  // Queues the maps to fetch while the backward step of a node runs; `k` is the node's forward
  // step.
  virtual void search(const PlanRequest& /*request*/, int /*k*/, FetchQueue& /*queue*/) const {}
  // The bytes that a policy without a pool holds all the time; none for policies with a pool.
  virtual std::optional<std::uint64_t> total_bytes(const PlanRequest& /*request*/) const {
    return std::nullopt;
  }
  // The plan of a request. A policy that tries several configurations returns the first that fits.
  virtual MemoryPlan plan(const PlanRequest& request) const;
  // Whether plan() fits, which may be known before all configurations have been tried.
  virtual bool fits(const PlanRequest& request) const { return plan(request).fits(); }

 private:
  PolicyTraits traits_;
};

// One training step on two servers, computing and transfers, within a pool of a given capacity.
//
//   forward k    waits for its predecessor and for memory (releases by offloads in flight); queues
//                the offloads that it triggers; its dead tensors are released when it and their
//                offloads have ended
//   turn         both servers are idle
//   backward k   first fetches the maps that it lacks; starts prefetches while it computes, as long
//                as the head of the queue has room; releases tensors after their last use
MemoryPlan run_timeline(const Policy& policy, const PlanRequest& request);  // timeline.cpp

// All policies, in the order of the documentation. They live as long as the program.
const std::vector<const Policy*>& all_policies();
std::vector<std::string> policy_names();
// Throws Error(usage), which opens with `option`, for an unknown name.
const Policy& find_policy(const std::string& option, const std::string& name);

const Policy& none_policy();
const Policy& shared_policy();
const Policy& liveness_policy();
const Policy& vdnn_all_policy();
const Policy& vdnn_conv_policy();
const Policy& vdnn_policy();
const Policy& sequential_policy();
const Policy& superneurons_policy();
const Policy& dymem_policy();

// Whether vDNN and Dymem would move the node's output: a backward step uses it, and its last
// forward consumer is none of fc, softmax and dropout.
inline bool is_movable_map(const StepTensor& tensor) {
  return tensor.kind == TensorKind::feature && !tensor.backward_uses.empty() && !tensor.kept;
}

}  // namespace hetsgd
