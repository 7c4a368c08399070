// Worker: the vocabulary that algorithm files are written in: data, mathematics, merging,
// measuring.
//
// It joins a cluster's Node (time, messages) with the model and the data. Every call that computes
// is charged to the worker's device; everything about stopping, evaluating and recording is the
// driver's business (training/), reached through Run. (It stands here and not in cluster/ because
// it needs the model, which is a layer beside the cluster.)
//
// Vectors (Buffer) are model-sized device memory. A batch stays valid until the next call that
// makes one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithm/plan.hpp"
#include "cluster/node.hpp"
#include "data/batch.hpp"
#include "data/sampler.hpp"
#include "linalg/device.hpp"
#include "model/model.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

class Worker;

// The driver's answer to one call of running().
struct GoOn {
  bool yes = false;
  std::uint64_t samples = 0;  // learnt from so far, by all workers
};

// What the driver gives to workers. One per run in sim and threads; thread-safe.
class Run {
 public:
  virtual ~Run() = default;

  virtual const Plan& plan() const = 0;
  virtual const Model& model() const = 0;
  virtual const Sampler& sampler() const = 0;
  virtual std::span<const float> initial_parameters() const = 0;  // host memory
  virtual bool synchronous() const = 0;

  // The charged work: of the real model, or of the full-size one under --charge.
  virtual Work gradient_work(const BatchShape& batch) const = 0;

  virtual GoOn running(Worker& worker) = 0;
  virtual void end_budget() = 0;
  virtual std::uint64_t draw(std::uint64_t count) = 0;  // asynchronous: the shared pool's cursor
  virtual void completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) = 0;
  virtual void updated(Worker& worker, bool counts_for_run) = 0;
  // `model` is called inside the fence, if an evaluation is due. `samples`: see
  // Worker::evaluate_here; empty: as many as all workers have completed.
  virtual void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                             const std::function<std::span<const float>()>& model) = 0;
  virtual std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const = 0;
  // `replica` is memory of `device`, both of which outlive the run's last evaluation.
  virtual void publish(int rank, Device& device, std::span<const float> replica) = 0;
  virtual std::span<const float> mean_of_published() = 0;
  virtual void record(Seconds time, nlohmann::json event) = 0;
  virtual void observe(const std::string& histogram, std::int64_t value) = 0;
  virtual void warn(const std::string& text) = 0;
};

// One of several learners that share a worker's device (paper 002, section 3.3): a replica with
// batches and an optimizer of its own.
struct Learner {
  Buffer w;
  std::unique_ptr<Optimizer> optimizer;  // null: plain SGD
  Gradient g;                            // the optimizer's; empty: plain SGD
};

// The learners of one device among those of all devices, which count in the order of ranks.
struct LearnerShare {
  int mine = 1;
  int before = 0;  // on devices of lower ranks
  int all = 1;
};

class Worker {
 public:
  Worker(Node& node, Run& run);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int rank() const { return node_.rank(); }
  int size() const { return node_.size(); }
  Seconds now() const { return node_.now(); }
  const Plan& plan() const { return run_.plan(); }

  // --- the loop ---------------------------------------------------------------------------------
  // The only loop guard: false when the budget is used up, a target stops the run, it diverged or
  // was aborted.
  bool running();
  // The algorithm's own budget (a number of rounds) is used up: the next evaluate_here() measures
  // the model and ends the run. Synchronous algorithms: called by all workers.
  void end_budget() { run_.end_budget(); }
  // Samples until the next merge: plan().mega_batch_samples(), less when the run's budget ends
  // before. All workers of a synchronous algorithm get the same number between two calls of
  // running().
  std::uint64_t mega_batch_samples() const;

  // --- data -------------------------------------------------------------------------------------
  // The next `size` samples of this worker. Partition shared: synchronous algorithms interleave the
  // pool by rank (the k-th call of all workers, with equal sizes, takes the next P * size samples
  // in rank order); asynchronous ones are served first come first served. Other partitions: this
  // worker's shard.
  const Batch& next_batch(std::uint64_t size);
  // The next `size` samples of each learner of this device, for synchronous algorithms. Partition
  // shared: the learners of all devices interleave the pool in the order of `share`, which must be
  // the same everywhere. Other partitions: batch after batch of this worker's shard.
  std::span<const Batch> next_batches(std::uint64_t size, const LearnerShare& share);
  // The samples at `range` of the shared pool, for algorithms that dispatch batches themselves.
  const Batch& batch_at(SampleRange range);

  // --- mathematics, charged to this worker's device --------------------------------------------
  // Mean loss of the batch at w; g <- its gradient. One iteration.
  double gradient(const Batch& batch, const Buffer& w, Gradient& g);
  // One iteration and one update of this replica: w <- w - learning_rate * gradient, fused, or by
  // the plan's optimizer. Returns the loss before it.
  double step(const Batch& batch, double learning_rate, Buffer& w);
  // A step of all learners of this device at once, learner j with batches[j]: one iteration of the
  // device, as long as its profile says for so many. (A CPU takes them one after the other.)
  void step(std::span<const Batch> batches, double learning_rate, std::span<Learner> learners);
  // As step, until `interrupt` is raised while the gradient is computed: then w stays as it was,
  // nothing counts, and the answer is empty. (The gradient is built, the update is not fused.)
  std::optional<double> step_unless(Interrupt& interrupt, const Batch& batch, double learning_rate,
                                    Buffer& w);
  // A step whose result is to be thrown away: w moves, but it counts for nothing and leaves the
  // optimizer's state alone. Returns the time that it took.
  Seconds try_step(const Batch& batch, double learning_rate, Buffer& w);
  // The update alone, with the plan's optimizer. All replicas make the same one: it counts once for
  // the run.
  void apply(Gradient& g, double learning_rate, Buffer& w);
  // The same for a dense vector of as many numbers, e.g. one that a collective of its own has
  // summed.
  void apply(std::span<float> g, double learning_rate, Buffer& w);
  // The update alone, of a replica that no other worker updates alike: each counts for the run.
  void apply_alone(Gradient& g, double learning_rate, Buffer& w);
  // An update made elsewhere (on a server) that this worker took over; counts like apply.
  void took_update();
  // An update of the global model that this worker alone caused (a push that a server applied).
  void made_update();

  // The learning rate of a batch of b samples now: lr * b / b_max (linear scaling) times the
  // schedule. An algorithm asks before it computes the batch's gradient: the first update of a run
  // takes the schedule at epoch 0, whoever makes it, and workers whose parts of a global batch
  // differ take the same rate.
  double learning_rate(std::uint64_t b) const { return learning_rate(b, epoch()); }
  // The same at an epoch that the algorithm has counted itself.
  double learning_rate(std::uint64_t b, double epoch) const;
  // Where training stands: samples at the last running() and this worker's since, times P.
  double epoch() const;

  void copy(const Buffer& x, Buffer& y);                       // y <- x
  void scale(double a, Buffer& x);                             // x <- a x
  void axpby(double a, const Buffer& x, double b, Buffer& y);  // y <- a x + b y
  double squared_norm(const Buffer& x);                        // ||x||^2, in double
  // w' = merged + gamma (w - previous); previous <- w; w <- w'.
  void momentum_merge(const Buffer& merged, double gamma, Buffer& w, Buffer& previous);
  // Any other computation that streams `passes` model-sized vectors; for several learners, that
  // does so for each of them at once.
  void compute_vectors(double passes, FunctionRef fn, int learners = 1);

  // --- memory (not charged: set-up)
  Buffer vector();              // model-sized, zero
  Buffer initial_parameters();  // the same bits for every worker, algorithm and cluster
  Gradient make_gradient();
  Learner make_learner();  // at the initial parameters
  // The plan's optimizer with a fresh state on `device`, for a server or an extra replica; or one
  // of the algorithm's own.
  std::unique_ptr<Optimizer> make_optimizer(Device& device) const {
    return make_optimizer(device, plan().optimizer);
  }
  std::unique_ptr<Optimizer> make_optimizer(Device& device, const OptimizerOptions& options) const;
  // What make_optimizer scales each by its own norms.
  std::vector<Tensor> tensors() const;
  Device& device() { return node_.device(); }
  // x for the host to read: x itself, or a copy of a GPU's memory that is good until the next call.
  std::span<const float> on_host(const Buffer& x);
  const Model& model() const { return run_.model(); }

  // --- talking ----------------------------------------------------------------------------------
  Comm& comm() { return node_.comm(); }
  Node& node() { return node_; }
  // x <- sum over all workers, in rank order.
  void all_reduce(Buffer& x, Traffic kind) { comm().all_reduce(x.span(), ReduceOp::sum, kind); }
  // g <- sum over all workers; afterwards g is dense in every layer.
  void all_reduce(Gradient& g);
  // Opens service S, made once in the run with args....
  template <class S, class... Args>
  auto serve(const std::string& name, const Args&... args) {
    return hetsgd::serve<S>(node_, name, args...);
  }
  // A second process of this worker, with a Worker of its own: the same rank. Updates that it makes
  // are the worker's; what it learns from does not count. What the two share is guarded by a
  // Monitor.
  void companion(const std::string& name, std::function<void(Worker&)> fn);
  std::unique_ptr<Monitor> make_monitor() { return node_.make_monitor(); }
  std::unique_ptr<Interrupt> make_interrupt() { return node_.make_interrupt(); }

  // --- measuring --------------------------------------------------------------------------------
  // A point at which `model` is what the algorithm defines as its result. If an evaluation is due
  // the clock is fenced and the model measured. Synchronous algorithms: called by all workers.
  // Those whose workers need not be in the same iteration here say how many samples all workers
  // will have learnt from when they are (the same number on all): it decides whether an evaluation
  // is due and whether the budget is used up.
  void evaluate_here(const Buffer& model, std::optional<std::uint64_t> samples = {});
  // The same for algorithms whose result is the mean of all replicas, published before the loop. A
  // published buffer must be whole whenever the world is stopped, i.e. at every blocking call.
  void publish(const Buffer& replica);
  void evaluate_mean_here();
  // The best accuracy (P@1 where the task has it) that was measured from `from` to `to` samples,
  // both included; empty: none was. The same answer for all if rank 0 has come past evaluate_here
  // at `to`.
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const {
    return run_.best_accuracy(from, to);
  }
  // Appends {"time_s": now, ...event} to the result's events.
  void record(nlohmann::json event);
  // Counts a value in one of the result's histograms ("staleness", "contributors", ...).
  void observe(const std::string& histogram, std::int64_t value) { run_.observe(histogram, value); }
  // Appends to the result's warnings. One worker speaks for all.
  void warn(const std::string& text) { run_.warn(text); }

  // --- counters for the driver
  std::uint64_t samples() const { return samples_; }
  std::uint64_t updates() const { return *updates_; }
  std::uint64_t running_calls() const { return running_calls_; }
  std::uint64_t count_evaluate_call() { return evaluate_calls_++; }

 private:
  template <class Fn>
  double compute_step(const Batch& batch, Fn&& fn);
  void completed(const Batch& batch, double loss, Seconds started);
  void clear_foreign_rows(Gradient& g);
  void update(Gradient& g, double learning_rate, Buffer& w);
  Optimizer& optimizer();
  Gradient& own_gradient();

  Node& node_;
  Run& run_;
  std::unique_ptr<ModelContext> context_;  // scratch of this worker's device
  std::unique_ptr<Optimizer> optimizer_;   // made at first use
  Gradient own_gradient_;                  // of step() with an optimizer
  // The next `size` samples of this worker at cursor_, where no other worker has a say in them.
  std::optional<SampleRange> own_range(std::uint64_t size) const;
  // What next_batch() or next_batches() will give if called as it was last time; null: unknown.
  const Batch* batch_ahead();

  Batch batch_;
  std::vector<Batch> batches_;  // of several learners
  // The samples that batch_ahead() foretells, and those that ahead_ has.
  std::optional<SampleRange> foretold_, ahead_range_;
  Batch ahead_;
  const Batch* learning_next_ = nullptr;  // while one learner of several is at work: the next one's
  std::vector<float> host_copy_;          // of on_host()
  std::uint64_t cursor_ = 0;
  bool gradient_is_dense_ = false;  // an all_reduce filled rows that this batch did not touch
  GoOn go_on_;                      // the last answer of running()
  std::uint64_t samples_at_go_on_ = 0;
  std::uint64_t samples_ = 0;
  // Shared with the companions.
  std::shared_ptr<std::atomic<std::uint64_t>> updates_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t running_calls_ = 0;
  std::uint64_t evaluate_calls_ = 0;
};

}  // namespace hetsgd
