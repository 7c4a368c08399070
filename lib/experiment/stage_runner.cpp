// Runs one stage of a sweep, several runs side by side.
//
//   pending ──claimed──> running ──well──> done
//      ^  └─ another has it: back          └─ badly ─> pending (--retry), or failed
//      └── result is there already ─> done
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/run.hpp"
#include "experiment/spec_settings.hpp"
#include "experiment/sweep.hpp"
#include "experiment/worker_pool.hpp"
#include "result/validate.hpp"
#include "training/evaluation.hpp"
#include "training/run_data.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Keeps the few data sets that runs used last. Child processes share their pages.
class DataShelf {
 public:
  // Throws what DataCache::get() throws, and Error(usage) for a goal whose metric these data do not
  // have.
  DataCache& get(const TrainOptions& options, const std::optional<Goal>& goal) {
    const std::string key = data_key(options);
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return entries_.front().cache;
    }
    if (entries_.size() >= kMostEntries) entries_.pop_back();
    entries_.emplace_front();
    entries_.front().key = key;
    try {
      const RunData& data = entries_.front().cache.get(options);
      if (goal) {
        check_measured(goal->metric, DataShape::of(*data.train.data, *data.test.data),
                       *data.test.data, "metric", goal->text());
      }
    } catch (...) {
      entries_.pop_front();
      throw;
    }
    return entries_.front().cache;
  }

 private:
  struct Entry {
    std::string key;
    DataCache cache;
  };
  static constexpr std::size_t kMostEntries = 4;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace

class StageRunner {
 public:
  // `runs` is the whole stage, of which this process takes its shard. `start` is the start of the
  // sweep.
  StageRunner(Sweep& sweep, const std::vector<PlannedRun>& runs, const SweepHooks& hooks,
              HostClock::time_point start)
      : sweep_(sweep), hooks_(hooks), start_(start), paces_(sweep.plan_.spec().cells.size()) {
    const std::vector<bool> done = sweep.find_done(runs, /*remember=*/true);
    const std::size_t shards = sweep.options_.shards;
    std::vector<std::size_t> of_others;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const bool mine = i % shards == sweep.options_.shard;
      // No final run can begin before all trials have ended, so every shard helps with all trials.
      if (!mine && runs[i].stage == SweepStage::final) continue;
      items_.push_back({runs[i]});
      if (done[i]) {
        ++done_;
      } else if (mine) {
        push(items_.size() - 1);
      } else {
        of_others.push_back(items_.size() - 1);
      }
    }
    for (const std::size_t item : of_others) push(item);
  }

  SweepEnd run() {
    while (!pending_.empty() || pool_.running() > 0) {
      if (const auto end = must_stop()) {
        pool_.stop();
        return *end;
      }
      start_what_can();
      report();
      if (pending_.empty() && pool_.running() == 0) break;
      // If no child is running here, other processes run all that is left, so it polls less often.
      if (const auto ended = pool_.wait(Seconds(pool_.running() == 0 ? 0.5 : 0.25))) end(*ended);
      beat();
    }
    report();
    return failed_ > 0 ? SweepEnd::failed : SweepEnd::completed;
  }

 private:
  struct Item {
    PlannedRun run;
    std::uint64_t attempts = 0;
  };
  struct Running {
    std::size_t item = 0;
    Claim claim;
    std::optional<Claim> host;  // set for a run in real time
    HostClock::time_point start = HostClock::now();
  };
  // The number of pending runs of a cell, and the total time of its ended ones.
  struct CellPace {
    std::size_t pending = 0, measured = 0;
    double wall_s = 0;
  };
  enum class Start { started, done, elsewhere };

  void push(std::size_t item) {
    pending_.push_back(item);
    ++paces_[items_[item].run.cell].pending;
  }

  std::optional<SweepEnd> must_stop() const {
    if (hooks_.signal != nullptr && hooks_.signal->load() != 0) return SweepEnd::aborted;
    const auto& most = sweep_.options_.max_wall;
    if (most && seconds_since(start_) >= most->count()) return SweepEnd::time_limit;
    if (sweep_.options_.fail_fast && failed_ > 0) return SweepEnd::failed;
    return std::nullopt;
  }

  void start_what_can() {
    constexpr std::size_t kMostTries = 256;  // runs that others may have claimed
    for (std::size_t tries = std::min(pending_.size(), kMostTries); tries > 0; --tries) {
      const std::size_t item = pending_.front();
      if (!has_room(sweep_.plan_.candidate(items_[item].run).is_virtual)) return;
      pending_.pop_front();
      --paces_[items_[item].run.cell].pending;
      const Start result = try_start(item);
      if (result == Start::elsewhere) push(item);
      if (result == Start::done) ++done_;
    }
  }

  bool has_room(bool is_virtual) const {
    const bool occupied = std::ranges::any_of(
        running_, [](const auto& each) { return each.second.host.has_value(); });
    if (occupied) return false;
    return is_virtual ? running_.size() < static_cast<std::size_t>(sweep_.options_.jobs)
                      : running_.empty();
  }

  Start try_start(std::size_t item) {
    const PlannedRun& run = items_[item].run;
    std::optional<Claim> claim = sweep_.folder_.claim(run);
    if (!claim) return Start::elsewhere;
    // Another process may have completed the run before this claim.
    if (sweep_.find_done({run}, /*remember=*/true).front()) return Start::done;
    const bool is_virtual = sweep_.plan_.candidate(run).is_virtual;
    std::optional<Claim> host;
    if (!is_virtual && !(host = sweep_.folder_.claim_host())) return Start::elsewhere;
    ++items_[item].attempts;
    try {
      check_place(run);
      const auto configured = configure(run);
      const auto& goal = sweep_.plan_.spec().setup_of(run.cell).goal;
      DataCache* const cache = is_virtual ? &data_.get(configured->options(), goal) : nullptr;
      pool_.start(next_tag_, task_of(run, configured, cache));
    } catch (const Error& error) {
      // Mistakes in options were found by the plan, so this error concerns only this run.
      fail(item, error.what());
      return Start::started;
    }
    running_.emplace(next_tag_++, Running{item, std::move(*claim), std::move(host)});
    return Start::started;
  }

  // Throws Error(data) for a result file that is no regular file, because a run would wait for the
  // reader of a pipe.
  void check_place(const PlannedRun& run) const {
    const std::string file = sweep_.folder_.result_file(run);
    std::error_code ignored;
    const fs::file_status status = fs::status(file, ignored);
    if (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status)) return;
    refuse(file, "a pipe or a device", "the result of a run, or nothing", "", ExitCode::data);
  }

  std::shared_ptr<ConfiguredRun> configure(const PlannedRun& run) const {
    const std::vector<Setting> settings = sweep_.plan_.settings(run);
    auto configured = std::make_shared<ConfiguredRun>(algorithm_of(settings), settings);
    TrainOptions& options = configured->options();
    options.output = sweep_.folder_.result_file(run);
    options.overwrite = true;
    options.redact = options.redact || sweep_.options_.redact;
    if (!options.host_threads) {
      options.host_threads = std::max(1, sweep_.options_.cores / sweep_.options_.jobs);
    }
    return configured;
  }

  WorkerTask task_of(const PlannedRun& run, std::shared_ptr<ConfiguredRun> configured,
                     DataCache* cache) const {
    WorkerTask task;
    task.log = sweep_.folder_.log_file(run);
    if (cache == nullptr) {
      task.command = sweep_.command_of(run, /*resume=*/false);
      return task;
    }
    const bool redact = configured->options().redact;
    json config = Training(configured->spec()).record().config;
    if (redact) redact_paths(config);  // as in the results of trials
    ResultOptions result{train_arguments(sweep_.plan_.settings(run)), redact,
                         sweep_.tuning_of_result(run, config)};
    task.run = [configured, cache, result, signal = hooks_.signal] {
      const Outcome outcome = run_one(configured->spec(), result, {.signal = signal}, cache);
      if (outcome.error) std::rethrow_exception(outcome.error);
      return outcome.exit_code;
    };
    return task;
  }

  std::string reason_of(const PlannedRun& run, int exit_code, const std::string& status) const {
    std::string said = last_error(sweep_.folder_.log_file(run));
    if (!said.empty()) return said;
    if (exit_code == static_cast<int>(ExitCode::time_limit)) return "ended by --time-limit";
    if (exit_code > 128) return fmt::format("ended by signal {}", exit_code - 128);
    if (exit_code == 0) return fmt::format("ended with status {}", status);
    return fmt::format("exit code {} without a message (is the disk full?)", exit_code);
  }

  void end(const EndedWorker& ended) {
    const auto found = running_.find(ended.tag);
    const Running running = std::move(found->second);
    running_.erase(found);
    const PlannedRun& run = items_[running.item].run;
    const std::string file = sweep_.folder_.result_file(run);
    json result;
    try {
      if (state_of(file)) result = read_result(file);
    } catch (const Error& error) {
      warn("{}", error.what());
    }
    const std::string status = result.is_object() ? result["status"] : "no result";
    if (is_done(status)) {
      ++done_;
      ++sweep_.runs_done_;
      ++paces_[run.cell].measured;
      paces_[run.cell].wall_s += ended.wall_s;
      std::error_code ignored;
      fs::remove(sweep_.folder_.log_file(run), ignored);
      sweep_.add_to_index(run, result);
      if (hooks_.on_done) hooks_.on_done(run, result);
      return;
    }
    if (must_stop()) return;  // the run was stopped together with the sweep
    fail(running.item, reason_of(run, ended.exit_code, status));
  }

  void fail(std::size_t item, const std::string& reason) {
    if (items_[item].attempts <= sweep_.options_.retry) {
      push(item);
      return;
    }
    ++failed_;
    sweep_.add_failure({items_[item].run, reason});
    if (hooks_.on_failure) hooks_.on_failure(sweep_.failures_.back());
  }

  void beat() {
    if (seconds_since(last_beat_) < Claim::kHeartbeat.count()) return;
    for (const auto& [tag, running] : running_) {
      running.claim.touch();
      if (running.host) running.host->touch();
    }
    last_beat_ = HostClock::now();
  }

  // Estimates that a run takes the mean time of its cell so far, or else the mean of all runs.
  std::optional<Seconds> remaining() const {
    double wall_s = 0;
    std::size_t measured = 0;
    for (const CellPace& pace : paces_) {
      wall_s += pace.wall_s;
      measured += pace.measured;
    }
    if (measured == 0) return std::nullopt;
    const auto mean_of = [&](const CellPace& pace) {
      return pace.measured > 0 ? pace.wall_s / static_cast<double>(pace.measured)
                               : wall_s / static_cast<double>(measured);
    };
    double left_s = 0;
    for (const CellPace& pace : paces_) left_s += static_cast<double>(pace.pending) * mean_of(pace);
    for (const auto& [tag, running] : running_) {
      const CellPace& pace = paces_[items_[running.item].run.cell];
      left_s += std::max(0.0, mean_of(pace) - seconds_since(running.start));
    }
    return Seconds(left_s / std::max(1, sweep_.options_.jobs));
  }

  void report() const {
    if (!hooks_.on_progress) return;
    hooks_.on_progress({.stage = items_.empty() ? SweepStage::final : items_.front().run.stage,
                        .done = done_,
                        .all = items_.size(),
                        .failed = failed_,
                        .running = pool_.running(),
                        .remaining = remaining()});
  }

  Sweep& sweep_;
  const SweepHooks& hooks_;
  HostClock::time_point start_, last_beat_ = HostClock::now();
  std::vector<Item> items_;
  std::deque<std::size_t> pending_;
  std::map<std::size_t, Running> running_;  // by the pool's tag
  std::size_t next_tag_ = 0, done_ = 0, failed_ = 0;
  std::vector<CellPace> paces_;  // by cell
  DataShelf data_;
  WorkerPool pool_;
};

SweepEnd Sweep::run_stage(const std::vector<PlannedRun>& runs, const SweepHooks& hooks,
                          HostClock::time_point start) {
  return StageRunner(*this, runs, hooks, start).run();
}

}  // namespace hetsgd
