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
//   any rank ── report (diverged) ─> rank 0 ── halt? ─> all: begin no further point
//        all ── points begun ─> rank 0 ── stop at the largest ─> all: go on, and stop there
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
// of an evaluation and sends its model. At the end of a segment, by a loss or not, all ranks ask
// rank 0 whether the run goes on (kSettle), which answers when it has heard of all.
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
// Reports, models and announced decisions are calls off the clock (rank_calls.hpp). The broadcast
// of State and the all_reduces above are the workers' own messages, on the training clock. The
// mutex of the calls is taken before the referee's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/process_group.hpp"
#include "cluster/trace/trace.hpp"
#include "training/client.hpp"
#include "training/rank_calls.hpp"
#include "training/rank_messages.hpp"

namespace hetsgd {

class RankClient final : public Client {
 public:
  // `referee`: on rank 0 that of the run, elsewhere one that follows it. All ranks make their
  // clients in the same order. An error on one of the client's threads ends the cluster's run. All
  // arguments outlive the client.
  RankClient(Control& control, Referee& referee, const RunSetup& setup, Cluster& cluster,
             Seconds peer_timeout);
  ~RankClient() override { calls_.close(); }
  void fields(Archive& fields) override;

  // begin() waits for rank 0's first state, so that every rank knows the accuracy of the initial
  // model. end() sends the last report and does not wait.
  void begin(Worker& worker) override;
  void end(Worker& worker) override;
  // Where workers may be lost the last report is sent here, if the worker was unwound.
  void leave(Worker& worker) noexcept override;
  void losing() override;
  // Returns when rank 0 has every worker's last report in the record, with the events sorted by
  // time, and has told how the segment ends. unsettled() are then those of all ranks. Throws
  // Error(runtime) if a report does not come within the peer timeout.
  bool await_end(const std::map<int, Seconds>& lost) override;
  // The rest throws what await_end() throws.
  void complete(SavedRun& saved) const override;
  void share_state(SavedRun& saved, const std::vector<int>& to) override;
  void gather(Trace& trace) override;

  LoopDecision running(Worker& worker) override;
  void end_budget() override;
  std::uint64_t draw(int rank, std::uint64_t count) override;
  void completed(Worker& worker, const LearntBatch& batch) override;
  void discarded(Worker& worker, std::uint64_t samples) override;
  void updated() override;
  void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                     const std::function<std::span<const float>()>& model) override;
  bool evaluation_due(Worker& worker) const override;
  void publish(int rank, Device& device, std::span<const float> replica) override;
  std::span<const float> mean_of_published() override;
  void record(Seconds time, nlohmann::json event) override;
  void observe(const std::string& histogram, std::int64_t value) override;
  void warn(const std::string& text) override;

 private:
  void receive_messages();  // registers all handlers
  // Sends the counts and texts since the last report, and clears them here. is_evaluation: an
  // evaluation of all workers waits for it.
  void report(Worker& worker, bool is_evaluation = false);
  // Rank 0: takes in a report, which may make an evaluation due or end the run. Runs on the control
  // thread, or on the worker's thread for rank 0's own reports.
  void absorb(int from, const rank_messages::CountersAndExtra& report);
  void announce();
  // Takes the decisions of rank 0. now: the latest clock at the evaluation of all workers that they
  // come from. Mutex held.
  void take(const rank_messages::State& state, Seconds now = Seconds(0));
  // Rank 0: a worker that was lost is back, so the segment ends.
  void end_for_joiners();
  void halt();
  // Rank 0: waits for all ranks, decides, and tells them. mine: of this rank's worker.
  rank_messages::Outcome decide(const std::map<int, Seconds>& lost,
                                const std::optional<rank_messages::Settled>& mine);
  // Begins a point of a synchronous algorithm, and returns whether the run stops there; see the
  // diagram of a rank above. Mutex held.
  bool stops_here(RankCalls::Lock& lock, bool at_running);
  void evaluate_together(Worker& worker, Seconds now, std::uint64_t samples,
                         const std::function<std::span<const float>()>& model);
  void evaluate_alone(Worker& worker, const std::function<std::span<const float>()>& model);
  // The number of the evaluation that is due; 0 if none is, or if the run has ended.
  std::int32_t due_number() const;
  // Rank 0, with the world stopped: measures the prepared model, if the point is still due, and
  // decides how the run goes on. `together`: the evaluation is one of all workers.
  void measure_here(Seconds time, const rank_messages::Together& together,
                    const std::function<PreparedModel()>& prepared);
  void await_reports(const rank_messages::Together& at);
  // With the world stopped, by the owner of the pause: rank 0 measures, wherever the model is.
  void have_measured(Worker& worker, std::int32_t due, const rank_messages::Together& together,
                     const std::function<std::span<const float>()>& model);
  // The rank that sent the model is the owner of the pause, and waits for the answer. One model is
  // in flight at a time, so the previous thread has finished its work.
  void on_model(RankCalls::Caller from, rank_messages::ReceivedModel model);
  // Rank 0, with the world stopped: collects from all ranks the rows of sharded tables that a
  // measurement reads. Null if the tables are part of the model.
  const RowSource* gather_rows();
  void send_trace(const Trace& trace);
  void take_traces(Trace& trace);

  Cluster& cluster_;
  const int rank_, ranks_;       // ranks_: processes, also those without a worker
  const std::vector<int> view_;  // the workers of the segment; worker r runs in process r

  RankCalls calls_;            // its mutex guards all below
  Referee::Counters pending_;  // not reported yet
  nlohmann::json extra_;       // of the next report; null: there is none
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
  std::uint64_t stated_samples_ = 0;
  std::uint64_t last_evaluation_ = 0;  // number of the last one that this rank reached
  struct Reported {
    std::uint64_t evaluation = 0, running_calls = 0;
  };
  std::vector<Reported> reports_;  // rank 0: from the last reports, by rank
  int evaluations_ = 0;            // rank 0: evaluations that were due so far
  bool stop_told_ = false;         // rank 0: the stop is announced, or about to be
  Published replica_;
  std::vector<RankCalls::Caller> settling_;         // rank 0: ranks that wait for the outcome
  std::vector<rank_messages::Settled> settled_;     // rank 0: of all workers, as they come
  bool last_reported_ = false;                      // by this rank
  std::vector<int> with_state_;                     // the survivors that have a state
  std::optional<rank_messages::WorkerFields> got_;  // share_state()
  std::optional<GatheredRows> rows_;              // rank 0: rows of sharded tables, kept once made
  std::optional<RankCalls::Caller> trace_asked_;  // for a part of this rank's trace
  std::vector<float> mean_;

  // Declared after all members that it uses, so that it is joined before they are destroyed.
  std::jthread evaluation_;  // rank 0: measures the model that another rank has sent
  std::optional<SamplePoolClient> pool_;
};

}  // namespace hetsgd
