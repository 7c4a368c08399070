// The client of a worker that is a process of its own (mpi). It sends messages to the referee,
// which is on rank 0. Decisions that follow from numbers known to all ranks are made on each rank
// without a message.
//
// Synchronous algorithms. The number of samples decides whether an evaluation is due. All ranks
// know it at evaluate_here(), so between two evaluations the run's control exchanges no byte. There
// are two exceptions. An algorithm that does not state its samples costs one all_reduce of one
// number per call. --max-time costs another one, because the latest clock counts for all. At an
// evaluation the ranks synchronise off the clock anyway, and leave with the referee's decision
// whether to go on:
//
//   all ranks   report ──> meet in the pause ─────────────┬─> broadcast of State ──> on, or stop
//   rank 0                   └ await all reports, measure ┘
//
// A rank whose loss is not finite reports it at once, and the referee finds the first point that no
// rank has begun:
//
//   any rank ── report (diverged) ─> rank 0 ── halt ─> all: begin no further point
//        all ── stand: points begun ─> rank 0 ── stop at the largest ─> all: go on, and stop there
//
//   a rank:  free ── halt ──> halting: a new point waits ── stop point p ──> points < p are begun
//             └──────── State with stop (an evaluation came first) ────────> no further point
//
// The ranks do not stop at once, because a rank that left immediately would leave the others
// waiting in a collective.
//
// Workers that return. The first worker that finds one due at running() tells rank 0 (kJoin).
// Synchronous workers stop as by a halt, but at a running(); asynchronous ones are told as when the
// run stops.
//
// Where workers may be lost, the first worker of the view need not be on rank 0. It owns the pause
// of an evaluation and sends its model. At the end of the segment, by a loss or not:
//
//   all ranks   last report, kSettled ──> rank 0 decides ── kOutcome ─> all: it goes on, or not
//
// Asynchronous algorithms. Every step is reported to rank 0 in one message, and no worker waits for
// it. When rank 0 finds an evaluation due, it tells all ranks. The first rank to call
// evaluate_here() stops the world and sends its model. When rank 0 finds that the run stops, it
// tells all ranks. The shared pool of samples is a service.
//
//   no evaluation ── reports make one due ──> due = n, announced ── first rank: pause ──> measuring
//        ^                                                                                   |
//        └── due = 0, announced <── rank 0 has measured (in a thread of its own) <── model ──┘
//
// A rank that enters the pause second finds due = 0 and goes on. A model with an older number than
// the due one is answered but not measured.
//
// Reports, models and announced decisions are control messages, which count in no time breakdown.
// They arrive on the control thread, one at a time, which must not block: it also carries the
// heartbeats. The broadcast of State and the all_reduces above are the workers' own messages, on
// the training clock.
//
// Locks, in this order: the handlers' guard, mutex_, the referee's. No message is sent with mutex_
// held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/process_group.hpp"
#include "cluster/trace/trace.hpp"
#include "training/client.hpp"
#include "training/rank_messages.hpp"

namespace hetsgd {

class RankClient final : public Client {
 public:
  // `referee`: on rank 0 that of the run, elsewhere one whose record nobody reads. All ranks make
  // their clients in the same order. The n-th client of each rank talks to the n-th of the others,
  // by their own kinds of messages. An error on one of the client's threads ends the cluster's run.
  // All arguments outlive the client.
  RankClient(Control& control, Referee& referee, const RunSetup& setup, Cluster& cluster,
             Seconds peer_timeout);
  void fields(Archive& fields) override;
  // After this no handler touches the client; messages that still come are dropped.
  ~RankClient() override;

  // begin() waits for rank 0's first state, so that every rank knows the accuracy of the initial
  // model. end() sends the last report and does not wait.
  void begin(Worker& worker) override;
  void end(Worker& worker) override;
  // Where workers may be lost the last report is sent here, if the worker was unwound.
  void leave(Worker& worker) noexcept override;
  // Returns when rank 0 has every worker's last report in the record, with the events sorted by
  // time, and has told how the segment ends. Where workers may be lost unsettled() are then those
  // of all ranks, and every rank has the outcome. Error(runtime) if a report does not come within
  // the peer timeout.
  void losing() override;
  bool await_end(const std::map<int, Seconds>& lost) override;
  const std::vector<int>& with_state() const { return with_state_; }
  SavedFields take_known() { return std::move(known_); }
  // Collective, between two segments: the first worker that has a state sends it to the workers
  // `to`, which have its common fields then, and its own beside theirs. Throws what await_end()
  // throws.
  void share_state(SavedRun& saved, const std::vector<int>& to);
  // To be called by every rank after the run; then rank 0's trace has the lines of all workers.
  // Throws what await_end() throws.
  void gather(Trace& trace);

  LoopDecision running(Worker& worker) override;
  void end_budget() override;
  std::uint64_t draw(int rank, std::uint64_t count) override;
  void completed(Worker& worker, const LearntBatch& batch) override;
  void discarded(Worker& worker, std::uint64_t samples) override;
  void updated() override;
  void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                     const std::function<std::span<const float>()>& model) override;
  bool evaluation_due(Worker& worker) const override;
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const override;
  void publish(int rank, Device& device, std::span<const float> replica) override;
  std::span<const float> mean_of_published() override;
  void record(Seconds time, nlohmann::json event) override;
  void observe(const std::string& histogram, std::int64_t value) override;
  void warn(const std::string& text) override;

 private:
  // The reason of a report: a step (or a loss that is not finite), an evaluation that waits for it,
  // or the end of the worker.
  enum class Report { step, evaluation, last };

  // Handlers stay registered with the control channel for good. They share this guard, which lets
  // them in while the client lives. Closing it waits for the handler that is inside.
  class HandlerGuard;
  // Registers handle(from, content) for a message.
  void send_trace(const Trace& trace);
  void take_traces(Trace& trace);
  template <class Message, class Handle>
  void on(const Message& message, Handle handle);
  void receive_messages();  // registers all handlers
  template <class Message>
  void send(int to, const Message& message, const typename Message::Sent& content = {}) {
    control_.send(to, first_kind_ + message.place, to_bytes(content));
  }
  // Sends question_for(rank) to every rank, and waits for all answers. Their handler counts them in
  // `answers`.
  template <class Message, class Question>
  void ask_all(const Message& message, Question question_for, int& answers, const char* what);
  // Changes state under the mutex, and wakes the threads that wait for a change.
  template <class Change>
  void change(Change apply);
  // Sends the counts and texts since the last report, and clears them here.
  void report(Worker& worker, Report kind);
  // Rank 0: takes in a report, which may make an evaluation due or end the run. Runs on the control
  // thread, or on the worker's thread for rank 0's own reports.
  void absorb(int from, const rank_messages::CountersAndExtra& report);
  void announce();
  void take(const rank_messages::State& state);
  // Rank 0: a worker that was lost is back, so the segment ends.
  void end_for_joiners();
  void halt();
  // await_end(), where workers may be lost.
  bool settle(const std::map<int, Seconds>& lost);
  rank_messages::Outcome decide(const std::map<int, Seconds>& lost);
  // Begins a point of a synchronous algorithm, and returns whether the run stops there; see the
  // diagram of a rank above. Mutex held.
  bool stops_here(std::unique_lock<std::mutex>& lock, bool at_running);
  void on_stand(std::uint64_t points);
  void evaluate_together(Worker& worker, Seconds now, std::uint64_t samples,
                         const std::function<std::span<const float>()>& model);
  void evaluate_alone(Worker& worker, const std::function<std::span<const float>()>& model);
  // The number of the evaluation that is due; 0 if none is, or if the run has ended.
  std::int32_t due_number() const;
  // Rank 0, with the world stopped: measures `model` if the point is due, and puts the decision
  // into State.
  void measure_due(Seconds time, const Referee::Point& point, const PreparedModel& model);
  void measure_alone(Seconds time, const PreparedModel& model);
  void measure_together(Seconds time, const rank_messages::Together& at,
                        const std::function<PreparedModel()>& prepared);
  // Another rank than rank 0 owns the pause: sends its model to rank 0, and waits.
  void ask_to_measure(Worker& worker, const PreparedModel& model, std::int32_t due,
                      const rank_messages::Together& at);
  // The rank that sent the model is the owner of the pause, and waits for the answer. One model is
  // in flight at a time, so the previous thread has finished its work.
  void on_model(int from, rank_messages::ReceivedModel model);
  void send_replica(int to);
  // Rank 0, with the world stopped: collects from all ranks the rows of sharded tables that a
  // measurement reads. Null if the tables are part of the model.
  const RowSource* gather_rows();
  void send_rows(int to, std::span<const Index> places);
  // Waits until ready(). The mutex is held, and released while it waits. Error(runtime), naming
  // `what`, when the run fails or `limit` of wall-clock time has passed. It polls for a failure,
  // because a failure wakes no waiting thread.
  void await(std::unique_lock<std::mutex>& lock, const char* what, Seconds limit,
             const std::function<bool()>& ready);

  Control& control_;
  Cluster& cluster_;
  const Seconds peer_timeout_;
  const int rank_;
  const std::vector<int> view_;  // the workers of the segment; worker r runs in process r
  const int size_;               // of them
  const int first_kind_;         // of this client's control messages
  const std::shared_ptr<HandlerGuard> handler_guard_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Referee::Counters pending_;  // not reported yet
  nlohmann::json events_ = nlohmann::json::array();
  std::map<std::string, std::map<std::int64_t, std::uint64_t>> histograms_;
  std::vector<std::string> warnings_;
  rank_messages::State state_;
  bool started_ = false;   // rank 0's first state has come
  bool diverged_ = false;  // this rank has reported it
  // The stop of a synchronous run without an evaluation; see the diagram above.
  std::uint64_t points_ = 0;         // points that this rank's worker has begun
  std::uint64_t begun_samples_ = 0;  // of its worker before this segment, if workers may be lost
  bool halting_ = false;             // no point is begun until stop_point_ is known
  bool losing_ = false;              // asynchronous workers leave
  std::optional<rank_messages::StopPoint> stop_point_;
  bool join_told_ = false;  // this rank has told that a worker is back
  // Between two states a rank estimates the samples of all: its own since the last state, times the
  // number of workers.
  std::uint64_t own_samples_ = 0, own_steps_ = 0;
  std::uint64_t own_samples_at_state_ = 0;
  Accuracies accuracies_;
  Budget budget_;
  std::uint64_t stated_samples_ = 0;
  std::uint64_t last_evaluation_ = 0;  // number of the last one that this rank reached
  struct Reported {
    std::uint64_t evaluation = 0, running_calls = 0;
  };
  std::vector<Reported> reports_;    // rank 0: from the last reports, by rank
  int ended_ = 0;                    // rank 0: ranks whose last report has arrived
  int evaluations_ = 0;              // rank 0: evaluations that were due so far
  bool stop_told_ = false;           // rank 0: the stop is announced, or about to be
  int stands_ = 0;                   // rank 0: ranks that have answered the halt
  std::uint64_t furthest_ = 0;       // rank 0: the most points that any of them has begun
  std::optional<bool> is_followed_;  // as rank 0 has told at the end
  bool measured_ = false;            // rank 0 has answered the model that was sent to it
  Published replica_;
  bool last_reported_ = false;                      // by this rank
  std::vector<rank_messages::Settled> settled_;     // rank 0: of all workers, as they come
  std::optional<rank_messages::Outcome> outcome_;   // as rank 0 has told
  std::vector<int> with_state_;                     // of it: the survivors that have a state
  SavedFields known_;                               // of it
  std::optional<rank_messages::WorkerFields> got_;  // share_state()
  // mean_of_published(): the replicas by rank in the view, as they come.
  std::vector<std::vector<float>> gathered_;
  int gathered_count_ = 0;
  std::optional<GatheredRows> rows_;  // rank 0: rows of sharded tables, kept once made
  int rows_gathered_ = 0;             // rank 0: ranks whose rows have arrived
  // Rank 0: parts of other ranks' traces that have arrived, with their ranks.
  std::deque<std::pair<int, rank_messages::TracePart>> traces_;
  int traces_asked_ = 0;  // other ranks: parts that rank 0 has asked for and not got
  std::vector<float> mean_;

  // Declared after all members that it uses, so that it is joined before they are destroyed.
  std::jthread evaluation_;  // rank 0: measures the model that another rank has sent
  std::optional<SamplePoolClient> pool_;
};

}  // namespace hetsgd
