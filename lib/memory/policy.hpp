// What a policy decides; the timeline (timeline.hpp) does the rest. One file per policy.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

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

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;

  // Of a feature map that the backward pass uses.
  virtual bool moves(const TrainingStep& training, const StepTensor& tensor) const {
    static_cast<void>(training);
    static_cast<void>(tensor);
    return false;
  }
  virtual OffloadTrigger trigger() const { return OffloadTrigger::first_consumer; }
  virtual Overlap overlap() const { return Overlap::asynchronous; }
  // Paper 004's groups and arenas; else best fit.
  virtual bool groups_tensors() const { return false; }
  // Resident prefetches may be dropped when memory runs short; one that does not fit blocks those
  // behind it, else it is passed over.
  virtual bool cancels() const { return false; }
  virtual bool blocks() const { return true; }
  // Nothing moves while there is room; then what was used least recently goes (TensorCache::lru).
  virtual bool caches(const PlanRequest& request) const {
    static_cast<void>(request);
    return false;
  }
  // Queues what is to be fetched while the backward step of the node runs, `k` being its number in
  // the forward pass.
  virtual void search(const PlanRequest& request, int k, FetchQueue& queue) const {
    static_cast<void>(request);
    static_cast<void>(k);
    static_cast<void>(queue);
  }
  // Of policies that have no pool: the bytes that they hold all the time.
  virtual std::optional<std::uint64_t> total_bytes(const PlanRequest& request) const {
    static_cast<void>(request);
    return std::nullopt;
  }
  // The policy that decides whether a request fits at all.
  virtual const Policy& feasibility() const { return *this; }
  // The plan of a request; a policy that tries several things returns the first that fits.
  virtual MemoryPlan plan(const PlanRequest& request) const;
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
