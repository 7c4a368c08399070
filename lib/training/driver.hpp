// The driver: stop rules, evaluation off the clock, and the record, once for all algorithms
// (implements Run).
//
// Stopping. A synchronous algorithm's workers must all leave their loop at the same iteration,
// though their clocks differ. So the first worker that makes the k-th call of running() decides,
// and the k-th call of everybody else gets the same answer. Asynchronous algorithms stop at once.
// Budgets are looked at where the model can be measured (evaluate_here), so that every run ends
// with a measured model.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/worker.hpp"
#include "training/evaluation.hpp"
#include "training/record.hpp"
#include "training/training.hpp"

namespace hetsgd {

struct DriverOptions {
  Plan plan;
  bool synchronous = true;
  std::uint64_t evaluate_every = 0;  // samples, > 0
  Seconds max_time{0};               // 0: none
  bool stop_at_target = false;
  bool keep_model = false;  // keep a host copy of the last measured model
  // Full-size shape and counts per real nonzero and label under --charge; unset: the real model's
  // work.
  std::optional<ModelShape> charged_shape;
  double charged_nonzeros = 1, charged_labels = 1;
};

// Status, reason and end of a run that was interrupted.
void note_interruption(const Interrupted& interruption, Record& record);

// Event "step" of --record-steps.
nlohmann::json step_event(Worker& worker, std::uint64_t iteration, std::uint64_t samples,
                          double loss, Seconds now, Seconds started);

// A replica that its worker has published, where it lies on a device.
struct Published {
  Device* device = nullptr;
  std::span<const float> replica;
  std::vector<float> copy;  // where the host does not reach the replica

  // Only while the world is stopped: then nobody else calls the device.
  std::span<const float> on_host();
};

// The mean of the replicas, added in rank order, in double: the same bits whatever the order of
// arrival.
void mean_of(std::span<const std::span<const float>> replicas, std::span<float> mean);

class Driver final : public Run {
 public:
  Driver(const DriverOptions& options, const Model& model, const Sampler& sampler,
         std::vector<float> initial, Evaluator& evaluator, Record& record, const TrainHooks& hooks);

  // Measures the initial model: the first point of every curve, at time 0.
  void measure_initial();
  // Ends the run at the next decision.
  void request_stop(Status status, const std::string& reason);
  // The record shows from now on that the run was interrupted, and is written as it stands. From
  // any thread.
  void interrupted(const Interrupted& interruption);
  // Why the run ended; empty: it went through its budget.
  std::optional<std::pair<Status, std::string>> stopped() const;
  // Notes the counters of a worker that has ended.
  void finished(Worker& worker);
  // `host_s`: host time since the start of training, with measuring and recording.
  Progress progress(double host_s = 0) const;
  const std::vector<float>& model_copy() const { return model_copy_; }

  // --- for a driver per rank (rank_driver.hpp), whose rank 0 keeps the record ------------------
  // What one rank has done since its last report. Plain bytes: it travels as it is.
  struct Counters {
    std::uint64_t samples = 0, updates = 0, steps = 0;
    double loss_sum = 0, last_loss = 0, step_time_s = 0;
    double time_s = 0;                                     // the rank's clock
    std::uint64_t worker_samples = 0, worker_updates = 0;  // from the start
    bool last = false;                                     // the worker has ended
    Ledger ledger;                                         // the worker's so far
    void add_step(std::uint64_t samples, double loss, Seconds now, Seconds started);
  };
  void absorb(int rank, const Counters& counters);
  // {"events": [...], "histograms": {...}, "warnings": [...]}, all optional.
  void absorb(const nlohmann::json& extra);
  void sort_events();  // by time; equal ones as they came
  // Asynchronous: an evaluation is due, as far as the reports tell.
  bool due(Seconds now) const;
  bool budget_used_up(Seconds now, std::uint64_t samples, bool ended) const;
  // Measures `model`, which all have learnt from `samples` for, and notes whether the run goes on.
  CurvePoint evaluate(Seconds now, std::uint64_t samples, bool used_up,
                      std::span<const float> model);

  // --- Run ---------------------------------------------------------------------------------------
  const Plan& plan() const override { return options_.plan; }
  const Model& model() const override { return model_; }
  const Sampler& sampler() const override { return sampler_; }
  std::span<const float> initial_parameters() const override { return initial_; }
  bool synchronous() const override { return options_.synchronous; }
  Work gradient_work(const BatchShape& batch) const override;
  GoOn running(Worker& worker) override;
  void end_budget() override;
  std::uint64_t draw(std::uint64_t count) override { return cursor_.fetch_add(count); }
  void completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) override;
  void updated(Worker& worker, bool counts_for_run) override;
  void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                     const std::function<std::span<const float>()>& model) override;
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const override;
  void publish(int rank, Device& device, std::span<const float> replica) override;
  std::span<const float> mean_of_published() override;
  void record(Seconds time, nlohmann::json event) override;
  void observe(const std::string& histogram, std::int64_t value) override;
  void warn(const std::string& text) override;

 private:
  // What the first worker to make a call decided for all; dropped when all have seen it.
  struct Decision {
    bool yes = false;
    std::uint64_t samples = 0;
    int seen = 0;
  };
  class Decisions {
   public:
    // The entry of call k, made by `decide` if this is its first reader.
    template <class Decide>
    Decision get(std::uint64_t k, int readers, Decide&& decide);

   private:
    std::uint64_t first_ = 0;
    std::deque<Decision> entries_;
  };

  // Copies the worker's counters and ledger into the record, so that a killed run's file has them.
  // Mutex held.
  void note(Worker& worker);
  void completed(int rank, const Counters& step);  // mutex held
  void schedule_next(std::uint64_t samples);       // mutex held
  std::uint64_t measured_samples() const;          // of the last point of the curve
  CurvePoint measure(Seconds time, std::uint64_t samples, std::span<const float> model);
  // The measured point goes into the record, and may end the run. Mutex held.
  void add(const CurvePoint& point, std::span<const float> model);

  const DriverOptions options_;
  const Model& model_;
  const Sampler& sampler_;
  const std::vector<float> initial_;
  Evaluator& evaluator_;
  Record& record_;
  const TrainHooks& hooks_;

  mutable std::mutex mutex_;  // guards all below
  std::uint64_t samples_ = 0;
  std::uint64_t updates_ = 0;
  std::uint64_t next_evaluation_ = 0;
  double loss_sum_ = 0;  // over batches since the last point
  std::uint64_t loss_count_ = 0;
  double last_loss_ = 0;
  Seconds last_time_{0};
  std::optional<std::chrono::steady_clock::time_point> measuring_since_;
  double initial_off_clock_s_ = 0;  // measuring and recording before the first step
  bool budget_ended_ = false;       // by the algorithm
  std::optional<std::pair<Status, std::string>> stop_;
  Decisions running_, evaluating_;
  std::vector<Published> published_;  // by rank
  std::vector<float> mean_;
  std::vector<Seconds> step_time_;  // by rank, sum
  std::vector<std::uint64_t> steps_;
  std::vector<float> model_copy_;
  std::atomic<std::uint64_t> cursor_{0};
};

}  // namespace hetsgd
