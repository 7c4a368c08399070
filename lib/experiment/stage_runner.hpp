// The runs of one stage of a sweep, side by side.
//
//   pending ──claimed──> running ──well──> done
//      ^  └─ another has it: back          └─ badly ─> pending (--retry), or failed
//      └── result is there already ─> done
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/host_clock.hpp"
#include "experiment/sweep.hpp"
#include "experiment/worker_pool.hpp"
#include "training/run_data.hpp"

namespace hetsgd {

// The data of the last few sets that runs have asked for; children share the pages.
class DataShelf {
 public:
  // Errors: as DataCache::get, and a goal on what is not measured on these data.
  DataCache& get(const TrainOptions& options, const std::optional<Goal>& goal);

 private:
  struct Entry {
    std::string key;
    DataCache cache;
  };
  static constexpr std::size_t kMostEntries = 4;
  std::list<Entry> entries_;  // the last used first
};

class StageRunner {
 public:
  // `runs`: the whole stage, of which this process takes its shard. `start`: of the sweep.
  StageRunner(Sweep& sweep, const std::vector<PlannedRun>& runs, const SweepHooks& hooks,
              HostClock::time_point start);
  SweepEnd run();

 private:
  struct Item {
    PlannedRun run;
    std::uint64_t attempts = 0;
  };
  struct Running {
    std::size_t item = 0;
    Claim claim;
    std::optional<Claim> host;  // of a run in real time
    HostClock::time_point start = HostClock::now();
  };

  void start_what_can();
  enum class Start { started, done, elsewhere };
  Start try_start(std::size_t item);
  bool has_room(bool is_virtual) const;
  WorkerTask task_of(const PlannedRun& run, std::shared_ptr<ConfiguredRun> configured,
                     DataCache* cache) const;
  std::shared_ptr<ConfiguredRun> configure(const PlannedRun& run) const;
  void check_place(const PlannedRun& run) const;
  void end(const EndedWorker& ended);
  void fail(std::size_t item, const std::string& reason);
  std::string reason_of(const PlannedRun& run, int exit_code, const std::string& status) const;
  bool is_done_now(const PlannedRun& run);
  std::optional<SweepEnd> must_stop() const;
  void beat();
  void push(std::size_t item);
  std::optional<Seconds> remaining() const;
  void report() const;

  Sweep& sweep_;
  const SweepHooks& hooks_;
  HostClock::time_point start_, last_beat_ = HostClock::now();
  std::vector<Item> items_;
  std::deque<std::size_t> pending_;
  std::map<std::size_t, Running> running_;  // by tag of the pool
  std::size_t next_tag_ = 0, done_ = 0, failed_ = 0;
  // Of the runs of a cell: how many are pending, and how long those took that have ended.
  struct CellPace {
    std::size_t pending = 0, measured = 0;
    double wall_s = 0;
  };
  std::vector<CellPace> paces_;  // by cell
  DataShelf data_;
  WorkerPool pool_;
};

}  // namespace hetsgd
