// Run: the interface of a run's client (training/) to its workers. The referee decides everything
// about stopping, evaluating and recording; workers reach it through this interface.
//
// It is an interface because training/ is a layer above: algorithms know neither the referee nor
// whether it lives in their process. If workers share memory, one client serves all of them. If
// each worker is a process, every process has a client, which reaches the referee by message.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <utility>

#include "algorithm/plan.hpp"
#include "algorithm/run_state.hpp"
#include "algorithm/stages.hpp"
#include "core/error.hpp"
#include "data/sampler.hpp"
#include "linalg/device.hpp"
#include "model/model.hpp"
#include "table/shard.hpp"

namespace hetsgd {

// Objects that the workers of one process have together, by name (Worker::share).

// One per run. An object lives as long as one of its callers keeps it. To share one object, all
// callers must wait for each other before the first of them may let go of it (as SharedModel::join
// does). Thread-safe; the objects guard their own contents.
class SharedObjects {
 public:
  // The object `name`, made by the first caller. `make` must not block. Checked: one type per name.
  template <class T>
  std::shared_ptr<T> get(const std::string& name, const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(name);
    if (found != objects_.end()) {
      HETSGD_CHECK(found->second.type == typeid(T));
      if (auto object = found->second.object.lock()) return std::static_pointer_cast<T>(object);
    }
    std::shared_ptr<T> made = make();
    objects_.insert_or_assign(name, Object{typeid(T), made});
    return made;
  }

 private:
  struct Object {
    std::type_index type;
    std::weak_ptr<void> object;
  };
  std::mutex mutex_;
  std::map<std::string, Object> objects_;
};

class Worker;

// A batch that was learnt from.
struct LearntBatch {
  std::uint64_t samples = 0;
  std::uint64_t losses = 0;  // whose mean `loss` is (Model::losses)
  double loss = 0;
  Seconds started{0};  // when its computation began
};

// The referee's answer to one call of running().
struct LoopDecision {
  bool yes = false;
  std::uint64_t samples = 0;  // learnt from so far, by all workers
  bool is_followed = false;   // with `no`: the run goes on in another segment
};

// The work that is charged. It does not cover vector operations, which the cluster scales itself.
// Const: any thread may ask at any time.
class CostModel {
 public:
  virtual ~CostModel() = default;
  // The charged work of one step of this worker: of the real model, or of the full-size one under
  // --charge.
  virtual Work gradient_work(int worker, const BatchShape& batch) const = 0;
  // The same for the first parts of a gradient (Model::partial_gradient_work).
  virtual Work partial_gradient_work(int worker, const BatchShape& batch,
                                     std::size_t parts) const = 0;
  // The charged model, and the charged shape of a batch: under --charge those of the full-size
  // model and data, else the real ones. Use only the layout of that model.
  virtual const Model& charged_model() const = 0;
  virtual BatchShape charged(const BatchShape& batch) const = 0;
  // The charged work of a stage of training with sharded tables. In fp and bp it is the work of the
  // dense part plus `tables`, the real work of the tables in the stage. In opt `tables` is the work
  // of the update.
  virtual Work stage_work(Stage stage, const BatchShape& batch, const Work& tables) const = 0;
  // Charged parameters per real one; 1 without --charge.
  virtual double parameter_ratio() const = 0;
  // Bytes that are charged for sending this many parameters.
  double charged_bytes(std::size_t parameters) const {
    return 4.0 * static_cast<double>(parameters) * parameter_ratio();
  }
};

// One per run in sim and threads, one per rank under mpi. Thread-safe: workers and their background
// tasks call it at any time. References that it returns outlive every worker.
class Run {
 public:
  // Arguments as of RunState.
  Run(const SavedRun* from, bool is_saved, std::vector<int> view)
      : state_(from, is_saved, std::move(view)) {}
  virtual ~Run() = default;

  virtual const Plan& plan() const = 0;
  virtual const Model& model() const = 0;
  virtual const Sampler& sampler() const = 0;
  virtual std::span<const float> initial_parameters() const = 0;  // host memory
  virtual bool synchronous() const = 0;
  // Objects of the workers that share this process' memory.
  SharedObjects& shared_objects() { return shared_objects_; }
  RunState& state() { return state_; }
  // Whether the clock goes on from an earlier segment (Endpoint::go_on).
  virtual bool clock_goes_on() const = 0;

  // Null: the model has no tables, or they are part of its own parameters.
  virtual TableSet* tables() const = 0;

  virtual const CostModel& costs() const = 0;

  // The loop guard, as Worker::running(). Under mpi it may block, but only while a diverged run
  // finds a common point to stop all ranks at.
  virtual LoopDecision running(Worker& worker) = 0;
  // The algorithm's own budget is used up: the next evaluation is due, and the last one.
  virtual void end_budget() = 0;
  // Asynchronous: the shared pool's cursor. Under mpi this is a round trip to a service, on the
  // training clock, because there is one pool.
  virtual std::uint64_t draw(int rank, std::uint64_t count) = 0;
  // A batch was learnt from. Never waits. A loss that is not finite ends the run.
  virtual void completed(Worker& worker, const LearntBatch& batch) = 0;
  // `samples` samples of completed() are in no update, so they do not count.
  virtual void discarded(Worker& worker, std::uint64_t samples) = 0;
  // The model moved. If several workers make the same update, one of them reports it.
  virtual void updated() = 0;
  // If an evaluation is due, calls `model` inside the pause: at most once, and under a synchronous
  // algorithm on rank 0 alone. Its result must stay valid until the pause ends. `samples`: see
  // Worker::evaluate_here; empty: the number that all workers have completed.
  virtual void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                             const std::function<std::span<const float>()>& model) = 0;
  // Asynchronous: whether evaluate_here() would find an evaluation due, as far as this process
  // knows.
  virtual bool evaluation_due(Worker& worker) const = 0;
  // Calls fn with the world stopped; its wall-clock time counts as evaluation time.
  virtual void measure(Worker& worker, const std::function<void()>& fn) = 0;
  // At most `count` test rows, evenly spaced, for a method with a measurement of its own.
  virtual Batch test_batch(std::uint64_t count) const = 0;
  virtual std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const = 0;
  // `replica` is memory of `device`; both must outlive the run's last evaluation. Until a worker
  // publishes, the initial model stands for its replica.
  virtual void publish(int rank, Device& device, std::span<const float> replica) = 0;
  // Only inside a pause, when all replicas are whole. The result is the run's memory, valid until
  // the next call.
  virtual std::span<const float> mean_of_published() = 0;
  // These go into the result, off the clock. Under mpi they travel with the rank's next report, so
  // training sends no message for them.
  virtual void record(Seconds time, nlohmann::json event) = 0;
  virtual void observe(const std::string& histogram, std::int64_t value) = 0;
  virtual void warn(const std::string& text) = 0;

 private:
  SharedObjects shared_objects_;
  RunState state_;
};

}  // namespace hetsgd
