// Worker: the vocabulary that algorithm files are written in: data, mathematics, merging,
// measuring.
//
// It joins a cluster's Node (time, messages) with the model and the data. Every call that computes
// is charged to the worker's device; everything about stopping, evaluating and recording is the
// driver's business (training/), reached through Run. (It stands here and not in cluster/ because
// it needs the model, which is a layer beside the cluster.)
//
// Vectors (Buffer) are model-sized device memory. A batch reference stays valid until the next call
// that makes a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/node.hpp"
#include "data/batch.hpp"
#include "data/sampler.hpp"
#include "linalg/device.hpp"
#include "model/model.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

// The hyperparameters that all algorithms share.
struct Plan {
  int workers = 1;
  std::uint64_t batch_size = 256;  // b_max: the largest batch of one worker
  double learning_rate = 1.0;      // given for b_max
  std::uint64_t mega_batch = 100;  // in batches of b_max
  std::uint64_t max_samples = 0;   // the run's budget; 0: no limit
  std::uint64_t seed = 1;
  Partition partition = Partition::shared;
  bool record_steps = false;  // every gradient and step becomes an event

  std::uint64_t mega_batch_samples() const { return mega_batch * batch_size; }
};

class Worker;

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

  virtual bool running(Worker& worker) = 0;
  virtual std::uint64_t mega_batch_samples(Worker& worker) = 0;
  virtual std::uint64_t draw(
      std::uint64_t count) = 0;  // asynchronous algorithms: the shared pool's cursor
  virtual void completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) = 0;
  virtual void updated(Worker& worker, bool counts_for_run) = 0;
  virtual void evaluate_here(Worker& worker, std::span<const float> model) = 0;
  virtual void record(Seconds time, nlohmann::json event) = 0;
};

class Worker {
 public:
  Worker(Node& node, Run& run);

  int rank() const { return node_.rank(); }
  int size() const { return node_.size(); }
  Seconds now() const { return node_.now(); }
  const Plan& plan() const { return run_.plan(); }

  // --- the loop ----------------------------------------------------------------------------------
  // The only loop guard: false when the budget is used up, a target stops the run, it diverged or
  // was aborted.
  bool running();
  // Samples until the next merge: plan().mega_batch_samples(), less when the run's budget ends
  // before. All workers of a synchronous algorithm get the same number between two calls of
  // running().
  std::uint64_t mega_batch_samples() { return run_.mega_batch_samples(*this); }

  // --- data --------------------------------------------------------------------------------------
  // The next `size` samples of this worker. Partition shared: synchronous algorithms interleave the
  // pool by rank (the k-th call of all workers, with equal sizes, takes the next P * size samples
  // in rank order); asynchronous ones are served first come first served. Other partitions: this
  // worker's shard.
  const Batch& next_batch(std::uint64_t size);
  // The samples at `range` of the shared pool, for algorithms that dispatch batches themselves.
  const Batch& batch_at(SampleRange range);

  // --- mathematics, charged to this worker's device
  // ------------------------------------------------ Mean loss of the batch at w; g <- its
  // gradient. One iteration.
  double gradient(const Batch& batch, const Buffer& w, Gradient& g);
  // w <- w - learning_rate * gradient, fused. One iteration, one update. Returns the loss before
  // it.
  double step(const Batch& batch, double learning_rate, Buffer& w);
  // w <- w - learning_rate * g, or the optimizer's rule. All replicas make the same update: it
  // counts once for the run.
  void apply(const Gradient& g, double learning_rate, Buffer& w);
  void apply(const Gradient& g, double learning_rate, Buffer& w, Optimizer& optimizer);
  // An update that was made elsewhere (on a server) and that this worker took over; counts like
  // apply.
  void took_update();

  // Learning rate of a batch of b samples: lr * b / b_max (linear scaling).
  double learning_rate(std::uint64_t b) const;

  void copy(const Buffer& x, Buffer& y);                       // y <- x
  void scale(double a, Buffer& x);                             // x <- a x
  void axpby(double a, const Buffer& x, double b, Buffer& y);  // y <- a x + b y
  double squared_norm(const Buffer& x);                        // ||x||^2, in double
  // w' = merged + gamma (w - previous); previous <- w; w <- w'.
  void momentum_merge(const Buffer& merged, double gamma, Buffer& w, Buffer& previous);
  // Any other computation over `passes` model-sized vectors.
  void compute_vectors(double passes, FunctionRef fn);

  // --- memory (not charged: set-up)
  // ----------------------------------------------------------------
  Buffer vector();              // model-sized, zero
  Buffer initial_parameters();  // the same bits for every worker, algorithm and cluster
  Gradient make_gradient();
  std::unique_ptr<Optimizer> make_optimizer(double momentum, double weight_decay);

  // --- talking
  // -------------------------------------------------------------------------------------
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

  // --- measuring
  // ----------------------------------------------------------------------------------- A point at
  // which `model` (host-readable device memory of this worker) is what the algorithm defines as its
  // result. If an evaluation is due the clock is fenced and the model measured. Synchronous
  // algorithms: called by all workers.
  void evaluate_here(const Buffer& model) { run_.evaluate_here(*this, model.span()); }
  // Appends {"time_s": now, ...event} to the result's events.
  void record(nlohmann::json event);

  // --- counters for the result
  // ---------------------------------------------------------------------
  std::uint64_t samples() const { return samples_; }
  std::uint64_t updates() const { return updates_; }
  std::uint64_t running_calls() const { return running_calls_; }
  std::uint64_t evaluate_calls() const { return evaluate_calls_; }
  std::uint64_t count_evaluate_call() { return evaluate_calls_++; }

 private:
  template <class Fn>
  double compute_step(const Batch& batch, Fn&& fn);

  Node& node_;
  Run& run_;
  std::unique_ptr<ModelContext> context_;  // scratch of this worker's device
  Batch batch_;
  std::uint64_t cursor_ = 0;
  bool gradient_is_dense_ =
      false;  // an all_reduce filled rows that this worker's batch did not touch
  std::uint64_t samples_ = 0;
  std::uint64_t updates_ = 0;
  std::uint64_t running_calls_ = 0;
  std::uint64_t evaluate_calls_ = 0;
};

}  // namespace hetsgd
