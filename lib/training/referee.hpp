// The referee of a run: the one place that keeps its record, knows its budget, says when the model
// is measured and when the run stops. Workers reach it through a client (client.hpp): directly
// where they share its memory, by message where each is a process of its own.
//
// The rules, on every cluster the same:
//
//   what ends a run               when the workers leave                     status
//   budget of samples or time,    at the evaluation that finds it used up,   completed
//     or the algorithm's own        which measures the model
//   all targets held for          at the evaluation that makes sure of it    target_reached
//     certain (target.hpp), with
//     --stop-at-target
//   a loss that is not finite     at the next point, without measuring       diverged
//   --time-limit, a signal        at once: the cluster is aborted            time_limit, aborted
//
// A point is a call of running() or evaluate_here(). A synchronous algorithm's workers must all
// leave at the same one, though their clocks differ: the first that no worker has begun when the
// run stops. Workers of asynchronous algorithms leave at their own next one. Budgets are looked at
// where the model can be measured, so that every run that completes ends with a measured model.
//
//   running ──┬─ budget used up at an evaluation ──> completed ──┬─ all targets ──> target_reached
//             |                                                  └─ test loss ────> diverged
//             ├─ evaluation makes sure of all targets ─────────────────────────> target_reached
//             └─ a loss is not finite ─────────────────────────────────────────> diverged
//
// The first reason stays, with one exception: `completed` is decided before the last model has been
// measured, and what that measurement finds says more. Why that order: the point must be due for
// all before anybody measures.
//
// One lock guards all of the state; the measurement itself runs outside of it, with the world
// stopped, since reports and the progress line need the lock meanwhile. The record is written to
// its file with the lock held: nobody may change it then.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithm/worker.hpp"
#include "core/error.hpp"
#include "training/evaluation.hpp"
#include "training/record.hpp"
#include "training/training.hpp"

namespace hetsgd {

// The numbers of a run that the rules above are about.
struct RunRules {
  Plan plan;
  bool synchronous = true;
  std::uint64_t evaluate_every = 0;  // samples, > 0
  Seconds max_time{0};               // 0: none
  bool stop_at_target = false;
  bool keep_model = false;  // keep a host copy of the last measured model
  // sim: the time of one pass over the parameters on the host that makes the measured model; it
  // takes as many as there are replicas in it. None: real time, and host time is measured.
  std::optional<Seconds> prepare_pass = {};
};

// Follows a run and tells where its model is measured and where its budget is used up. The referee
// has one for the run. Under mpi every rank has one, too, so that it can decide for itself what
// follows from numbers that all ranks know. Not thread-safe.
class Budget {
 public:
  // The rules outlive it.
  explicit Budget(const RunRules& rules) : rules_(rules), next_evaluation_(rules.evaluate_every) {}

  // The algorithm has no more to do.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  // Of samples (reached or passed), of time on the training clock, or ended by the algorithm.
  bool used_up(Seconds now, std::uint64_t samples) const;
  // An evaluation is due at every multiple of evaluate_every, so that points of different algorithms
  // lie at the same samples, and where the budget is used up.
  bool due(Seconds now, std::uint64_t samples) const {
    return samples >= next_evaluation_ || used_up(now, samples);
  }
  // The same. If it is due, the next one is due at the next multiple after `samples`: one late
  // evaluation does not shift all others.
  bool take_due(Seconds now, std::uint64_t samples);

 private:
  const RunRules& rules_;
  std::uint64_t next_evaluation_;
  bool ended_ = false;
};

// The accuracies that were measured, by samples. Not thread-safe. Under mpi every rank has a copy,
// which grows by what rank 0 announces.
class Accuracies {
 public:
  // Of a later point than all before, or of the last one again; NaN: the task has none.
  void add(std::uint64_t samples, double accuracy);
  // The best from `from` to `to` samples, both included.
  std::optional<double> best(std::uint64_t from, std::uint64_t to) const;
  // P@1 where the task has it; NaN: neither.
  static double of(const CurvePoint& point);

 private:
  std::vector<std::pair<std::uint64_t, double>> points_;
};

// The parameters as one vector, behind the rows of sharded tables, as in a replica's vector. rows:
// null: the tables are among the parameters.
std::vector<float> whole_model(std::span<const float> parameters, const RowSource* rows);

// A model to be measured, and what it took to make it, with the clock stopped.
struct PreparedModel {
  std::span<const float> parameters{};  // in host memory
  const RowSource* rows = nullptr;      // of sharded tables; null: they are among the parameters
  double host_s = 0;                    // of the process that made it
  std::size_t passes = 0;               // over all parameters: as many as replicas were read
};

// Status, reason and end of a run that was interrupted: aborted by a signal, or at its time limit.
// The caller holds whatever guards the record.
void note_interruption(const Interrupted& interruption, Record& record);

// What one worker has done from the start, as the record has it. Plain bytes.
struct WorkerTotals {
  std::uint64_t samples = 0, updates = 0;
  LookupCounts lookups;
  StageTimes stages;
  TimeBreakdown breakdown;

  static WorkerTotals of(Worker& worker);
};

// Event "step" of --record-steps. Its `iteration` counts the rank's steps, whichever client it has.
nlohmann::json step_event(Worker& worker, std::uint64_t iteration, std::uint64_t samples,
                          double loss, Seconds now, Seconds started);

// Two workers of a synchronous algorithm have called running() `one` and `other` times before they
// came to the same `place`: they would leave their loops apart.
CheckFailure unequal_calls(std::uint64_t one, std::uint64_t other, const std::string& place);

// Thread-safe. Calls come from workers, from the control thread (reports), from a measuring thread
// and from the watcher. Under mpi every rank has one, and that of rank 0 alone counts.
class Referee {
 public:
  // All outlive it. From here on the record is the referee's until the run is over.
  Referee(const RunRules& rules, Evaluator& evaluator, Record& record, const TrainHooks& hooks);

  // The set-up ends here. The watcher may settle the same times meanwhile.
  void begin_training();
  // Measures the initial model: the first point of every curve, at time 0.
  void measure_initial(const PreparedModel& initial);
  // Ends the run at the next point. Does nothing if it has ended: the first reason stays.
  void request_stop(Status status, const std::string& reason);
  // The record shows from now on that the run was interrupted, and is written as it stands. From
  // any thread: the process may be killed before the workers are through. No stop of the rules: who
  // interrupts aborts the cluster.
  void interrupted(const Interrupted& interruption);
  // Why the run ended; empty: it goes on.
  std::optional<std::pair<Status, std::string>> stopped() const;
  // `host_s`: host time since the start of training, with measuring and recording.
  Progress progress(double host_s = 0) const;
  const std::vector<float>& model_copy() const { return model_copy_; }
  const RunRules& rules() const { return rules_; }

  // --- what a client that shares its memory asks for its workers --------------------------------
  // Synchronous: the same answer for the k-th call of every worker, decided by the first of them.
  // Asynchronous: whether the run goes on now.
  LoopDecision running(Worker& worker);
  // A loss that is not finite ends the run, but does not interrupt it: synchronous workers that
  // wait for each other in a collective must all come through.
  void completed(Worker& worker, std::uint64_t samples, double loss, Seconds started);
  void discarded(std::uint64_t samples);
  // Takes the worker's counters and account into the record, so that a killed run's file has them.
  void observe(Worker& worker);

  // --- what any client asks ----------------------------------------------------------------------
  struct Point {
    bool due = false;           // the caller measures the model, or lets it be measured
    std::uint64_t samples = 0;  // that it has learnt from
  };
  // A call of evaluate_here() by a worker of a synchronous algorithm: its number, and how often the
  // worker has called running() before it.
  struct Call {
    std::uint64_t number = 0, running_calls = 0;
  };
  // At a call of evaluate_here(). `samples`: unset: as many as all workers have completed. `call`:
  // synchronous algorithms: all get the answer of the first. Errors: check, two workers have called
  // running() another number of times before one call: they would leave their loops apart. The
  // caller that gets `due` must evaluate the model: the next evaluation is already scheduled.
  // This is where a budget that is used up ends the run. Never due once the run has ended
  // otherwise.
  Point evaluation_point(Seconds now, std::optional<std::uint64_t> samples,
                         std::optional<Call> call = {});
  // While the clock stands still: `model` becomes the curve's next point, and may end the run.
  // Takes the mean train loss since the last point, and starts the next mean. Its own host time is
  // counted as eval_s, that of making the model as prepare_s, that of writing the record as
  // record_s. One at a time.
  CurvePoint measure(Seconds time, std::uint64_t samples, const PreparedModel& model);
  // While the clock stands still: calls fn, whose host time is counted as eval_s, too.
  void measure(const std::function<void()>& fn);
  std::uint64_t measured_samples() const;  // of the last point of the curve
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const;
  void end_budget();
  void updated();
  void record(nlohmann::json event);
  void observe(const std::string& histogram, std::int64_t value);
  void warn(const std::string& text);

  // --- what arrives in messages ------------------------------------------------------------------
  // What one rank has done since its last report. Plain bytes: it travels as it is. The first two
  // lines are differences, which rank 0 adds up; the worker's totals replace those of the report
  // before. So no report may be lost or come twice.
  struct Counters {
    std::uint64_t samples = 0, updates = 0, steps = 0;
    double loss_sum = 0, last_loss = 0, step_time_s = 0;
    double time_s = 0;                // the rank's clock
    std::uint64_t evaluation = 0;     // number of the one it stands before
    std::uint64_t running_calls = 0;  // the worker's so far
    bool budget_ended = false;        // by the algorithm
    bool last = false;                // the worker has ended
    WorkerTotals worker;
    void add_step(std::uint64_t samples, double loss, Seconds now, Seconds started);
  };
  // Reports of one rank in the order in which it made them; those of several in any order.
  void absorb(int rank, const Counters& counters);
  // {"events": [...], "histograms": {...}, "warnings": [...]}, all optional.
  void absorb(const nlohmann::json& extra);
  void sort_events();  // by time; equal ones as they came
  // An evaluation is due, as far as the reports tell. Asynchronous algorithms; decides nothing.
  bool due(Seconds now) const;

 private:
  // What the first worker to make a call decided for all; dropped when all have seen it. Workers
  // make calls 0, 1, 2, ... each, so the entries at hand are those between the slowest and the
  // fastest:
  //
  //   k: seen by all 4, dropped     first_ ─> | k+1: seen by 3 | k+2: seen by 1 |
  struct Decision {
    bool yes = false;
    std::uint64_t samples = 0;
    std::uint64_t running_calls = 0;  // of evaluate_here: its first caller's
    int seen = 0;
  };
  class Decisions {
   public:
    // The entry of call k, made by `decide` if this is its first reader. Mutex held. A call beyond
    // the next one fails a check: every worker makes them one by one.
    template <class Decide>
    Decision get(std::uint64_t k, int readers, Decide&& decide);

   private:
    std::uint64_t first_ = 0;
    std::deque<Decision> entries_;
  };

  void note(int rank, const WorkerTotals& worker);  // mutex held
  void count(int rank, const Counters& step);       // mutex held
  // The measured point goes into the record, and may end the run. Mutex held.
  void add(const CurvePoint& point);

  const RunRules rules_;
  Evaluator& evaluator_;
  Record& record_;
  const TrainHooks& hooks_;

  mutable std::mutex mutex_;  // guards all below
  std::uint64_t samples_ = 0;
  std::uint64_t updates_ = 0;
  std::vector<HoldWatch> targets_;  // of the record's targets, in their order
  Budget budget_;
  // The sum of the mean losses of batches since the last point.
  double loss_sum() const;
  std::vector<double> loss_sums_;  // by rank: whose batch came first moves no bit of the sum
  std::uint64_t loss_count_ = 0;
  double last_loss_ = 0;
  Seconds last_time_{0};
  std::optional<std::chrono::steady_clock::time_point> measuring_since_;
  double initial_off_clock_s_ = 0;  // measuring and recording before the first step
  Seconds prepared_{0};             // making the models that were measured so far
  std::optional<std::pair<Status, std::string>> stop_;
  Decisions running_, evaluating_;
  std::vector<Seconds> step_time_;  // by rank, sum
  std::vector<std::uint64_t> steps_;
  std::vector<float> model_copy_;
  Accuracies accuracies_;
};

}  // namespace hetsgd
