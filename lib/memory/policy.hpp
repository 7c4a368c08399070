// What a policy decides; the timeline (timeline.hpp) does the rest. One file per policy.
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
  // Of a feature map: it lies on the host alone, will be used, and no transfer of it is queued or
  // under way.
  virtual bool is_absent(int tensor) const = 0;
  virtual bool was_fetched(int tensor) const = 0;
  virtual void push(int tensor) = 0;
  // For a search that goes on where the one of the backward step before has ended: the lowest
  // forward step that it has come to. At first it lies behind all of them.
  virtual int& searched() = 0;
};

// When the offload of a map is queued.
enum class OffloadTrigger { first_consumer, last_consumer, production_end };
// How computing and transfers meet: free servers; every step waits for both; one after the other.
enum class Overlap { asynchronous, step_barrier, none };

// The traits do not depend on the network.
struct PolicyTraits {
  std::string name;
  OffloadTrigger trigger = OffloadTrigger::first_consumer;
  Overlap overlap = Overlap::asynchronous;
  bool groups_tensors = false;  // paper 004's groups and arenas; else best fit
  bool cancels = false;         // resident prefetches may be dropped when memory runs short
  bool blocks = true;           // a prefetch that does not fit blocks those behind it, else it is
                                // passed over
};

// The base is a policy that moves nothing.
class Policy : NonCopyable {
 public:
  explicit Policy(PolicyTraits traits) : traits_(std::move(traits)) {}
  virtual ~Policy() = default;
  const PolicyTraits& traits() const { return traits_; }
  const std::string& name() const { return traits_.name; }

  // Whether a feature map moves that the backward pass uses.
  virtual bool moves(const TrainingStep& /*training*/, const StepTensor& /*tensor*/) const {
    return false;
  }
  // Nothing moves while there is room; then what was used least recently goes (TensorCache::lru).
  virtual bool caches(const PlanRequest& /*request*/) const { return false; }
  // Queues what is to be fetched while the backward step of the node runs, `k` being its number in
  // the forward pass.
  virtual void search(const PlanRequest& /*request*/, int /*k*/, FetchQueue& /*queue*/) const {}
  // The bytes that a policy without a pool holds all the time.
  virtual std::optional<std::uint64_t> total_bytes(const PlanRequest& /*request*/) const {
    return std::nullopt;
  }
  // The policy that decides whether a request fits at all.
  virtual const Policy& feasibility() const { return *this; }
  // The plan of a request; a policy that tries several things returns the first that fits.
  virtual MemoryPlan plan(const PlanRequest& request) const;

 private:
  PolicyTraits traits_;
};

// In the order of the documentation. They live as long as the program.
const std::vector<const Policy*>& all_policies();
// Errors: usage, named after the option.
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

// Whether the node's output would be moved by vDNN and Dymem: a backward step uses it and its last
// forward consumer is none of fc, softmax, dropout.
inline bool is_movable_map(const StepTensor& tensor) {
  return tensor.kind == TensorKind::feature && !tensor.backward_uses.empty() && !tensor.kept;
}

}  // namespace hetsgd
