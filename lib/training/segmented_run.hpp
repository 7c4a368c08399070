// The segments of a run, one after the other (cluster/segment.hpp). Each runs the algorithm on the
// workers of its view, from the state that the one before has left.
//
//   run ─> segment ─┬─ the run has ended ─────────────────────────────> report
//            ^      ├─ cut at an evaluation: state saved, written ──┐
//            |      ├─ a worker returns: state saved, it joins ─────┤
//            |      └─ workers are lost: state of the others, or ───┤
//            |         that of the last cut (--on-loss restart)     |
//            └──────────────────────────────────────────────────────┘
//
// Every process of the run has one, and all make the same decisions. If workers of several
// processes may be lost, a process does not know all that these follow from. It takes rank 0's
// values: the outcome of a segment (rank_client.hpp), its time, and the samples of the run. A
// worker's state stays in its process; before another view begins its workers get the common state
// from the first that has one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "training/checkpoint.hpp"
#include "training/client.hpp"
#include "training/referee.hpp"
#include "training/views.hpp"

namespace hetsgd {

class Trace;

// Before the first segment of a resumed run: the record, the budget and the tables as they were.
void resume(SavedRun& saved, const TrainOptions& options, const Cluster& cluster, TableSet* tables,
            Referee& referee, Record& record);

class SegmentedRun {
 public:
  // The parts of the run, which outlive it.
  struct Of {
    const TrainOptions& options;
    const AlgorithmInfo& info;
    const Plan& plan;
    const Scenario& scenario;
    const NetworkModel& network;  // sim: carries the state of a worker that returns
    double state_ratio = 1;       // charged bytes of state per real byte
    const Record& record;
    Checkpoints& checkpoints;
    Referee& referee;
    Cluster& cluster;
    RunSetup& setup;
    TableSet* tables;                        // null: not sharded
    std::function<void(Worker&)> algorithm;  // the life of one worker
  };
  // saved: the state that the first segment goes on from; none: the start of a run.
  SegmentedRun(const Of& of, std::optional<SavedRun> saved);

  // Runs all segments. Throws what the cluster throws, and Error(runtime) if the run needs lost
  // workers, or loses workers so often that it gets no further.
  ClusterReport run(Trace* trace);

 private:
  // The end of a segment.
  struct Ended {
    ClusterReport report;
    std::optional<SavedRun> state;  // if the run goes on
    std::map<int, Seconds> lost;    // workers whose loss ended it, and when they were lost
    Seconds detected{0};
    Seconds time{0};  // the latest of its workers
    std::unique_ptr<Client> client = {};
  };

  std::unique_ptr<Client> make_client();  // of the next segment
  // Returns what ask() returns on rank 0. Collective where workers of several processes may be
  // lost.
  template <class Ask>
  auto of_root(Ask ask) const;
  Ended run_segment(Trace* trace);
  // The state and the clocks at its end, if the run goes on.
  void save(Ended& ended, Segment& segment);
  SavedRun saved_state(Client& client, Segment& segment);
  // Chooses the view and the state of the segment after `ended`.
  void go_on(Ended ended, Client& client);
  void report_lost_workers(const Ended& ended, const Client& client);
  FailureMode mode_of(int worker, Seconds failed) const;
  // The workers `to` get the common state from the process that has it, unless this process has
  // them all.
  void share_state(Client& client, const std::vector<int>& to);
  // After each loss. Throws Error(runtime) if the run has learnt nothing between many losses.
  void check_progress();
  // Workers join with the common state, which takes its time on the network.
  void join(const std::vector<int>& joined, Seconds time);
  void keep_tables();
  void write_checkpoint();

  const Of of_;
  // Workers of several processes may be lost.
  const bool agrees_;
  Views views_;
  // The state that the next segment goes on from; none: that of the start of a run.
  std::optional<SavedRun> saved_;
  // Whether that is the state of the last cut, or of the start. Else it lies in the memory of the
  // workers, and is gone with the last of them; then the run goes back to the last cut, cut_.
  bool saved_is_cut_ = true;
  std::optional<SavedRun> cut_;
  std::map<int, SavedFields> cut_tables_;        // sharded tables there, by worker of this process
  std::vector<std::uint64_t> computed_samples_;  // by worker, by whatever becomes of them
  std::vector<WorkerStart> starts_;              // by worker; empty: the next segment is the first
  bool view_changes_ = false;                    // after the segment before
  std::uint64_t reached_samples_ = 0;            // the most at a loss
  int standstills_ = 0;                          // losses in a row that found no more
};

}  // namespace hetsgd
