// The referee of a run. It alone keeps the record and the budget, and decides when the model is
// measured and when the run stops. Workers reach it through a client (client.hpp): directly if they
// share its memory, by message if each is a process of its own.
//
// The rules are the same on every cluster:
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
// leave at the same point, though their clocks differ. It is the first point that no worker has
// begun when the run stops. Workers of asynchronous algorithms leave at their own next point.
// Budgets are checked where the model can be measured, so that every completed run ends with a
// measured model.
//
//   running ──┬─ budget used up at an evaluation ──> completed ──┬─ all targets ──> target_reached
//             |                                                  └─ test loss ────> diverged
//             ├─ evaluation makes sure of all targets ─────────────────────────> target_reached
//             └─ a loss is not finite ─────────────────────────────────────────> diverged
//
// A run that is saved is a sequence of segments (segments.hpp). A segment ends like a run, at an
// evaluation that measures the model, but without a status. The workers leave, and the next segment
// begins with a referee that has forgotten their calls and nothing else.
//
// The first reason stays, with one exception. `completed` is decided before the last model is
// measured, and the result of that measurement replaces it. The order cannot be reversed, because
// the point must be due for all workers before one of them measures. If a worker is lost between
// the two, the others measure in the next segment, and `completed` is decided there.
//
// One lock guards all of the state. The measurement itself runs outside of it, with the world
// stopped, because reports and the progress line need the lock meanwhile. The record is written to
// its file with the lock held, so that no thread changes it meanwhile.
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
#include "training/segments.hpp"
#include "training/training.hpp"

namespace hetsgd {

// The settings that the rules above need.
struct RunRules {
  Plan plan;
  bool synchronous = true;
  std::uint64_t evaluate_every = 0;  // samples, > 0
  Seconds max_time{0};               // 0: none
  bool stop_at_target = false;
  bool keep_model = false;  // keep a host copy of the last measured model
  SegmentRules segments = {};
  // sim: the time of one pass over the parameters on the host that makes the measured model. Making
  // it takes one pass per replica. None in real time, where the wall-clock time is measured.
  std::optional<Seconds> prepare_pass = {};
};

// Follows a run and decides where its model is measured and where its budget is used up. Not
// thread-safe.
class Budget {
 public:
  // The rules outlive the budget.
  explicit Budget(const RunRules& rules) : rules_(rules), next_evaluation_(rules.evaluate_every) {}

  // The algorithm has no more to do.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  // Whether the samples are reached or passed, the time on the training clock is over, or the
  // algorithm has ended the budget.
  bool used_up(Seconds now, std::uint64_t samples) const;
  // An evaluation is due at every multiple of evaluate_every, so that points of different
  // algorithms lie at the same samples, and where the budget is used up.
  bool due(Seconds now, std::uint64_t samples) const {
    return samples >= next_evaluation_ || used_up(now, samples);
  }
  // Returns due(). If an evaluation is due, the next one is at the next multiple after `samples`,
  // so one late evaluation does not shift all others.
  bool take_due(Seconds now, std::uint64_t samples);
  // The last evaluation that take_due() has found was not made, and is due again.
  void put_back() { next_evaluation_ = taken_; }
  void fields(Archive& fields) {
    fields("next_evaluation", next_evaluation_);
    fields("ended", ended_);
  }

 private:
  const RunRules& rules_;
  std::uint64_t next_evaluation_;
  std::uint64_t taken_ = 0;  // the evaluation before it
  bool ended_ = false;
};

// The measured accuracies by number of samples. Not thread-safe.
class Accuracies {
 public:
  // Adds the accuracy of a point later than all before, or of the last one again; NaN: the task has
  // none.
  void add(std::uint64_t samples, double accuracy);
  // The best accuracy from `from` to `to` samples, both included; empty if there is none.
  std::optional<double> best(std::uint64_t from, std::uint64_t to) const;
  void fields(Archive& fields);
  // P@1 if the task has it, else the accuracy; NaN if it has neither.
  static double of(const CurvePoint& point);

 private:
  std::vector<std::pair<std::uint64_t, double>> points_;
};

// The rows of sharded tables and then the parameters, as one vector in the order of a replica. Null
// `rows`: the tables are among the parameters.
std::vector<float> whole_model(std::span<const float> parameters, const RowSource* rows);

// A model to be measured, and the cost of making it with the clock stopped.
struct PreparedModel {
  std::span<const float> parameters{};  // in host memory
  const RowSource* rows = nullptr;      // of sharded tables; null: tables are parameters
  double host_s = 0;                    // wall-clock time of making it
  std::size_t passes = 0;               // passes over all parameters, one per replica read
};

// Notes status, reason and end of an interrupted run: aborted by a signal, or at its time limit.
// The caller holds the lock that guards the record.
void note_interruption(const Interrupted& interruption, Record& record);

// The totals of one worker since the start, as in the record. Plain bytes.
struct WorkerTotals {
  std::uint64_t samples = 0, updates = 0;
  LookupCounts lookups;
  StageTimes stages;
  TimeBreakdown breakdown;

  static WorkerTotals of(Worker& worker);
  static WorkerTotals of(const WorkerRecord& worker);
};

// The event "step" of --record-steps. Its `iteration` counts the steps of the rank, with any
// client.
nlohmann::json step_event(Worker& worker, std::uint64_t iteration, const LearntBatch& batch,
                          Seconds now);

// A mean over the losses of batches, which may have unequally many. Plain bytes.
struct LossSum {
  double sum = 0;     // of the batches' mean losses times their weights
  double weight = 0;  // sum of the weights: a batch of `unit` losses has weight 1
  double unit = 0;    // the losses of the first batch; 0: there was none

  void add(const LossSum& other);
  double mean() const { return sum / weight; }
};

// The failure that two workers of a synchronous algorithm have called running() `one` and `other`
// times before the same `place`. They would leave their loops at different iterations.
CheckFailure unequal_calls(std::uint64_t one, std::uint64_t other, const std::string& place);

// Thread-safe. Workers, the control thread (reports), a measuring thread and the watcher call it.
// Under mpi every rank has one. That of rank 0 counts. The others follow it: they know the budget
// and the accuracies, so that a rank decides from numbers known to all without a message.
class Referee {
 public:
  // All arguments outlive the referee. From here on the record belongs to it until the run is over.
  Referee(const RunRules& rules, Evaluator& evaluator, Record& record, const TrainHooks& hooks);

  // Marks the end of the set-up. It takes the lock, because the watcher may settle the same phase
  // times meanwhile.
  void begin_training();
  // Measures the initial model, which is the first point of every curve, at time 0.
  void measure_initial(const PreparedModel& initial);
  // Ends the run at the next point. Does nothing if the run has ended, because the first reason
  // stays.
  void request_stop(Status status, const std::string& reason);
  // Notes the interruption in the record and writes the record at once, since the process may be
  // killed before the workers are through. To be called from any thread. It does not stop the
  // workers: the caller aborts the cluster.
  void interrupted(const Interrupted& interruption);
  // The reason why the run ended; empty while it goes on.
  std::optional<std::pair<Status, std::string>> stopped() const;
  // Whether the workers leave because a segment ends, and not the run.
  bool is_followed() const;
  // Before each segment: its `workers` workers have made no call yet. The segment ends at the first
  // running() from `until` on that is not a worker's first, so that other workers can join.
  void begin_segment(int workers, Seconds until);
  Seconds until() const;
  // Ends the segment: at the next running() of workers that come so far. Any thread.
  void end_segment();
  // A segment has ended at the loss of workers. Returns whether the run goes on: it has not ended
  // yet, or the evaluation that ends it was not made and is due again.
  bool goes_on_after_loss();
  // One of these losses. It tells how many of the reported samples are in no update.
  void lost(const FailureRecord& failure);
  // At the end of a run with losses: all samples that each worker has computed. A worker's own
  // count goes back with its state, so it lacks the work that was for nothing.
  void count_all(const std::vector<std::uint64_t>& samples);
  // So many more samples of the last loss are learnt from again.
  void redo(std::uint64_t samples);
  // The model has learnt from so many samples; later ones are learnt from again.
  void roll_back(std::uint64_t samples);
  // Lost workers take part again, and have received this many bytes of state.
  void returned(const std::vector<int>& workers, Seconds time, double state_bytes);
  // Saving the state has taken this wall-clock time.
  void checkpointed(double seconds);
  // The part of the state that every process of the run has when a segment begins: when the model
  // is measured next, and the accuracies so far.
  void known(Archive& fields);
  // The state of the referee and of its record between two segments.
  void fields(Archive& fields);
  // `host_s`: wall-clock time since the start of training, with measuring and recording.
  Progress progress(double host_s = 0) const;
  const std::vector<float>& model_copy() const { return model_copy_; }
  const RunRules& rules() const { return rules_; }

  // --- what a client that shares its memory asks for its workers --------------------------------
  // Synchronous: the first worker that makes its k-th call decides, and every worker's k-th call
  // gets the same answer. Asynchronous: whether the run goes on now.
  LoopDecision running(Worker& worker);
  // A loss that is not finite ends the run at the next point. It does not interrupt the run,
  // because synchronous workers that wait for each other in a collective must all complete it.
  void completed(Worker& worker, const LearntBatch& batch);
  void discarded(std::uint64_t samples);
  // Copies the worker's counters and times into the record, so that a killed run's file has them.
  void note(Worker& worker);

  // --- what any client asks ----------------------------------------------------------------------
  struct Point {
    bool due = false;           // the caller must measure the model, or have it measured
    std::uint64_t samples = 0;  // samples that the model has learnt from
  };
  // A call of evaluate_here() by a worker of a synchronous algorithm: its number, and the number of
  // calls of running() by that worker before it.
  struct Call {
    std::uint64_t number = 0, running_calls = 0;
  };
  // Decides at a call of evaluate_here(). Without `samples`, those that all workers have completed
  // count. `call` is set by synchronous algorithms, whose workers all get the answer of the first.
  // Throws CheckFailure if two workers have called running() a different number of times before the
  // same call (unequal_calls). The caller that gets `due` must evaluate the model: the next
  // evaluation is already scheduled. A budget that is used up ends the run here. Nothing is due
  // once the run has ended for another reason.
  Point evaluation_point(Seconds now, std::optional<std::uint64_t> samples,
                         std::optional<Call> call = {});
  // To be called while the clock stands still, one call at a time. Measures `model` as the curve's
  // next point, which may end the run. The point gets the mean train loss since the last point, and
  // the next mean starts. Wall-clock time is counted as eval_s for measuring, as prepare_s for
  // making the model, and as record_s for writing the record.
  CurvePoint measure(Seconds time, std::uint64_t samples, const PreparedModel& model);
  // To be called while the clock stands still. Calls fn, whose wall-clock time is counted as
  // eval_s, too.
  void time_measurement(const std::function<void()>& fn);
  std::uint64_t measured_samples() const;  // at the last point of the curve
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const;
  void end_budget();
  void updated();
  void record(nlohmann::json event);
  void observe(const std::string& histogram, std::int64_t value);
  void warn(const std::string& text);

  // --- what arrives in messages ------------------------------------------------------------------
  // The work of one rank since its last report, sent as plain bytes. The first two lines are
  // differences, which rank 0 adds up, so no report may be lost or arrive twice. The worker's
  // totals replace those of the report before.
  struct Counters {
    std::uint64_t samples = 0, updates = 0, steps = 0;
    LossSum losses{};
    double last_loss = 0, step_time_s = 0;
    double time_s = 0;                // the rank's clock
    std::uint64_t evaluation = 0;     // number of the last one that the rank has reported for
    std::uint64_t running_calls = 0;  // calls by the worker so far
    bool budget_ended = false;        // by the algorithm
    WorkerTotals worker;
    void add_step(const LearntBatch& batch, Seconds now);
  };
  // Takes in a report. Reports of one rank must come in the order of their making; those of several
  // ranks may come in any order.
  void absorb(int rank, const Counters& counters);
  // Takes in {"events": [...], "histograms": {...}, "warnings": [...]}, all optional.
  void absorb(const nlohmann::json& extra);
  void sort_events();  // by time; equal ones as they came
  // Whether an evaluation is due according to the reports so far. For asynchronous algorithms;
  // decides nothing.
  bool due(Seconds now) const;
  // Whether one is due by the budget, the same on all ranks. For synchronous algorithms; decides
  // nothing.
  bool due_by_budget(Seconds now, std::uint64_t samples) const;
  // On a rank that follows: rank 0 has measured the model at `samples`, when the latest clock was
  // `now`.
  void follow(Seconds now, std::uint64_t samples, double accuracy);

 private:
  // The decision for all workers by the first one that makes a call. It is dropped when all have
  // seen it. Each worker makes calls 0, 1, 2, ..., so the kept entries are those between the
  // slowest and the fastest worker:
  //
  //   k: seen by all 4, dropped     first_ ─> | k+1: seen by 3 | k+2: seen by 1 |
  struct Decision {
    bool yes = false;
    std::uint64_t samples = 0;
    std::uint64_t running_calls = 0;  // of the first caller of evaluate_here
    bool is_followed = false;         // of running: as LoopDecision
    int seen = 0;
  };
  class Decisions {
   public:
    // The entry of call k, made by `decide` if this is its first reader. Mutex held. A call beyond
    // the next one fails a check, because every worker makes its calls one by one.
    template <class Decide>
    Decision get(std::uint64_t k, int readers, Decide&& decide);

   private:
    std::uint64_t first_ = 0;
    std::deque<Decision> entries_;
  };

  bool ends() const { return stop_ || is_followed_; }  // mutex held
  Progress used() const;                               // of the budget; mutex held
  void note(int rank, const WorkerTotals& worker);     // mutex held
  void count(int rank, const Counters& step);          // mutex held
  // Adds the measured point to the record, which may end the run. Mutex held.
  void add(const CurvePoint& point);

  const RunRules rules_;
  Evaluator& evaluator_;
  Record& record_;
  const TrainHooks& hooks_;

  mutable std::mutex mutex_;  // guards all below
  std::uint64_t samples_ = 0;
  std::uint64_t updates_ = 0;
  std::vector<HoldWatch> targets_;  // one per target of the record, in the same order
  Budget budget_;
  LossSum losses() const;           // of all batches since the last point
  std::vector<LossSum> loss_sums_;  // by rank, so the sum does not depend on the order of arrival
  double last_loss_ = 0;
  Seconds last_time_{0};
  std::optional<std::chrono::steady_clock::time_point> measuring_since_;
  // Before the first step of this process: the time of measuring and recording, the used share of
  // the budget.
  double initial_off_clock_s_ = 0, share_before_ = 0;
  Seconds prepared_{0};  // time of making the models that were measured so far
  std::optional<std::pair<Status, std::string>> stop_;
  SegmentEnds segment_ends_;
  bool is_followed_ = false;  // the segment ends, and the run goes on unless stop_ is set
  bool is_measured_ = true;   // all evaluations that were due are
  int readers_ = 0;           // workers of the segment
  Seconds until_{0};          // its end
  Decisions running_, evaluating_;
  std::vector<Seconds> step_time_;  // by rank, sum
  std::vector<std::uint64_t> steps_;
  std::vector<float> model_copy_;
  Accuracies accuracies_;
};

}  // namespace hetsgd
