#include "training/segmented_run.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/rank_index.hpp"
#include "training/rank_client.hpp"

namespace hetsgd {

namespace {

// Names under which fields of the driver stand among those of the run and of a worker.
constexpr const char* kReferee = "referee";
constexpr const char* kTables = "tables";

// A run ends after so many losses in a row between which it has learnt nothing.
constexpr int kMostStandstills = 1000;

// fn(worker, shard) for the sharded tables in this process.
template <class Fn>
void for_each_shard_of(TableSet* tables, const Cluster& cluster, const Fn& fn) {
  for (int worker = 0; tables && worker < cluster.size(); ++worker) {
    if (cluster.runs_here(worker)) fn(worker, tables->shard(worker));
  }
}

std::vector<int> numbers(const std::map<int, Seconds>& workers) {
  std::vector<int> all;
  for (const auto& [worker, time] : workers) all.push_back(worker);
  return all;
}

}  // namespace

void resume(SavedRun& saved, const TrainOptions& options, const Cluster& cluster, TableSet* tables,
            Referee& referee, Record& record) {
  if (options.processes().is_root()) {
    const std::vector<std::string> warnings = record.warnings;
    Archive fields = Archive::loading(saved.run, saved.run, options.resume_from);
    fields(kReferee, referee);
    for (const std::string& text : warnings) {
      if (std::ranges::find(record.warnings, text) == record.warnings.end()) record.warn({text});
    }
    record.resumes.push_back(utc_now());
  }
  for_each_shard_of(tables, cluster, [&](int worker, Shard& shard) {
    Archive fields = Archive::loading(saved.workers.at(worker), saved.common, options.resume_from);
    fields(kTables, shard);
  });
}

SegmentedRun::SegmentedRun(const Of& of, std::optional<SavedRun> saved)
    : of_(of),
      agrees_(of.scenario.has_failures() && of.options.processes().control() != nullptr),
      views_(of.scenario, of.plan.workers, of.options),
      saved_(std::move(saved)),
      computed_samples_(at(of.plan.workers)) {
  if (!saved_) return;
  of.setup.resumes = true;
  Archive fields = Archive::loading(saved_->run, saved_->run, of.options.resume_from);
  fields("computed_samples", computed_samples_);
  starts_ = saved_->start;
  Seconds time{0};
  for (const int worker : saved_->view) time = std::max(time, starts_.at(at(worker)).clock);
  views_.resume(saved_->view, time);
}

ClusterReport SegmentedRun::run(Trace* trace) {
  keep_tables();
  for (;;) {
    const auto& view = views_.view();
    of_.referee.begin_segment(static_cast<int>(view.size()), views_.next_return());
    Ended ended = run_segment(trace);
    if (!ended.state) {
      // Losses that others have noticed only after the model was measured have cost nothing.
      std::erase_if(ended.lost, [&](const auto& lost) { return lost.second > of_.record.elapsed; });
      for (const auto& [worker, failed] : ended.lost) {
        of_.referee.lost({.worker = worker,
                          .failed = failed,
                          .detected = ended.detected,
                          .mode = mode_of(worker, failed)});
      }
      if (!of_.record.failures.empty()) of_.referee.count_all(computed_samples_);
      return ended.report;
    }
    const bool is_cut = ended.lost.empty() && ended.time < views_.next_return();
    const std::unique_ptr<Client> client = std::move(ended.client);
    for_each_shard_of(of_.tables, of_.cluster, [](int, Shard& shard) { shard.end_segment(); });
    go_on(std::move(ended), *client);
    // The file of the common state is rank 0's.
    if (is_cut && !of_.options.checkpoint.empty()) share_state(*client, {0});
    if (!is_cut) continue;
    keep_tables();
    write_checkpoint();
  }
}

std::unique_ptr<Client> SegmentedRun::make_client() {
  Control* const control = of_.options.processes().control();
  if (!control) return std::make_unique<SharedClient>(of_.referee, of_.setup);
  return std::make_unique<RankClient>(*control, of_.referee, of_.setup, of_.cluster,
                                      of_.options.peer_timeout);
}

template <class Ask>
auto SegmentedRun::of_root(Ask ask) const {
  return agrees_ ? of_.options.processes().agree(ask) : ask();
}

SegmentedRun::Ended SegmentedRun::run_segment(Trace* trace) {
  Segment segment;
  segment.view = views_.view();
  segment.together = !of_.options.is_virtual() || !of_.info.synchronous || view_changes_;
  for (const int worker : starts_.empty() ? std::vector<int>() : segment.view) {
    segment.start.push_back(starts_[at(worker)]);
  }
  if (saved_) segment.from = &saved_->cluster;
  of_.setup.from = saved_ ? &*saved_ : nullptr;
  of_.setup.view = segment.view;
  of_.setup.clock_goes_on = segment.goes_on();
  of_.setup.samples = of_root([&] { return of_.referee.progress().samples_count; });
  std::unique_ptr<Client> client = make_client();
  of_.setup.resumes = false;
  Client& its_client = *client;
  segment.other = its_client.state().other_workers();
  if (trace != nullptr) trace->begin_segment(segment.goes_on());
  Ended ended;
  bool is_followed = false;
  segment.is_followed = [&] { return is_followed = its_client.await_end(segment.lost); };
  segment.losing = [&] { its_client.losing(); };
  const auto work = [&](Endpoint& endpoint) {
    Worker worker(endpoint, its_client);
    struct Leave {
      Client& client;
      Worker& worker;
      ~Leave() { client.leave(worker); }
    } leave{its_client, worker};
    its_client.begin(worker);
    of_.algorithm(worker);
    its_client.end(worker);
  };
  ended.report = of_.cluster.run_segment(
      [&](Endpoint& endpoint) {
        if (trace != nullptr) endpoint.note_calls(*trace);
        work(endpoint);
      },
      segment);
  for (const auto& [worker, samples] : client->unsettled()) {
    computed_samples_[at(worker)] += samples.computed;
  }
  if (trace != nullptr && !is_followed) client->gather(*trace);
  ended.lost = segment.lost;
  ended.detected = segment.detected;
  ended.client = std::move(client);
  if (is_followed) save(ended, segment);
  return ended;
}

// A process knows the end of its own worker; to the others the latest does no harm, since all go on
// from there.
void SegmentedRun::save(Ended& ended, Segment& segment) {
  ended.state = saved_state(*ended.client, segment);
  ended.client->complete(*ended.state);
  starts_.resize(at(of_.plan.workers));
  const Seconds tasks_ended = of_.options.is_virtual() ? Seconds(0) : ended.report.elapsed;
  for (const WorkerReport& worker : ended.report.workers) {
    WorkerStart& start = starts_[at(worker.rank)] = {worker.ended, worker.breakdown};
    // One that had come to the end of the segment has waited there for the lost one, and in real
    // time for background tasks, which may end after their workers.
    start.clock = std::max({start.clock, ended.detected, tasks_ended});
    start.spent.wait += start.clock - worker.ended;
    ended.time = std::max(ended.time, start.clock);
  }
  ended.time = of_root([&] { return ended.time; });
  for (const int worker : segment.view) {
    if (agrees_ && !of_.cluster.runs_here(worker)) starts_[at(worker)].clock = ended.time;
  }
  ended.state->start = starts_;
}

// Counts of workers that are not in the view are kept for their return.
SavedRun SegmentedRun::saved_state(Client& client, Segment& segment) {
  SavedRun saved;
  client.state().save(saved, numbers(segment.lost));
  Archive fields = Archive::saving(saved.run, saved.run);
  fields("client", client);
  fields("computed_samples", computed_samples_);
  saved.cluster = std::move(segment.cluster);
  saved.samples = of_.referee.progress().samples_count;
  for (int worker = 0; saved_ && worker < of_.plan.workers; ++worker) {
    const auto found = saved_->workers.find(worker);
    if (saved.workers.contains(worker) || found == saved_->workers.end()) continue;
    SavedFields& own = saved.workers[worker];
    for (const auto& [name, bytes] : found->second) {
      if (name.starts_with("worker/")) own.emplace(name, FieldBytes(bytes.span()));
    }
  }
  return saved;
}

FailureMode SegmentedRun::mode_of(int worker, Seconds failed) const {
  const std::optional<Lost> lost = of_.scenario.lost(worker, failed);
  return lost ? lost->mode : FailureMode::killed;
}

// A round of a synchronous algorithm that others have gone on from has the lost worker's samples. A
// worker that was lost before its first running() of this segment is in none of its rounds.
void SegmentedRun::report_lost_workers(const Ended& ended, const Client& client) {
  std::uint64_t rounds = 0;
  const std::map<int, Client::Unsettled>& unsettled = client.unsettled();
  for (const auto& [worker, samples] : unsettled) {
    rounds = std::max(rounds, samples.round_points);
  }
  for (const auto& [worker, failed] : ended.lost) {
    const auto found = unsettled.find(worker);
    const Client::Unsettled last = found == unsettled.end() ? Client::Unsettled{} : found->second;
    const bool is_merged =
        of_.info.synchronous && last.round_points > 0 && last.round_points < rounds;
    of_.referee.lost({.worker = worker,
                      .failed = failed,
                      .detected = ended.detected,
                      .lost_samples = is_merged ? 0 : last.samples,
                      .mode = mode_of(worker, failed)});
  }
  if (!of_.info.synchronous) return;
  std::uint64_t redone = 0;
  for (const auto& [worker, samples] : unsettled) {
    if (!ended.lost.contains(worker)) redone += samples.unapplied;
  }
  of_.referee.redo(redone);
}

void SegmentedRun::go_on(Ended ended, Client& client) {
  if (!ended.lost.empty()) {
    report_lost_workers(ended, client);
    if (of_.options.on_loss == OnLoss::abort) {
      throw with_hint(runtime_failure("worker {} was lost at {:.6g} s", ended.lost.begin()->first,
                                      ended.detected.count()),
                      "--on-loss continue goes on without it");
    }
  }
  view_changes_ = !ended.lost.empty() || ended.time >= views_.next_return();
  if (!view_changes_) {
    saved_ = std::move(ended.state);
    cut_.reset();
    saved_is_cut_ = true;
    for (const int worker : views_.view()) {
      WorkerStart& start = starts_[at(worker)];
      start.clock += of_.options.checkpoint_time;
      start.spent.wait += of_.options.checkpoint_time;
    }
    saved_->start = starts_;
    return;
  }
  Seconds time = ended.time;
  const std::vector<int> lost = numbers(ended.lost);
  if (views_.restarts(lost, time)) {
    time = views_.goes_on_at(time);
    if (!saved_is_cut_) saved_ = std::exchange(cut_, std::nullopt);
    saved_is_cut_ = true;
    of_.referee.roll_back(saved_ ? saved_->samples : 0);
    check_progress();
    for (const int worker : views_.view()) {
      const bool is_lost = std::ranges::find(lost, worker) != lost.end();
      WorkerStart& start = starts_[at(worker)];
      if (!is_lost) start.spent.wait += time - start.clock;
    }
    views_.restart(time);
    for (WorkerStart& start : starts_) start.clock = time;
    for_each_shard_of(of_.tables, of_.cluster, [&](int worker, Shard& shard) {
      SavedFields& kept = cut_tables_.at(worker);
      Archive fields = Archive::loading(kept, kept, "the tables at the last cut");
      fields(kTables, shard);
    });
    of_.referee.returned(views_.view(), time, 0);
    share_state(client, views_.view());
    return;
  }
  if (!lost.empty()) check_progress();
  // Else the segment has ended before any of the others has begun, and has changed nothing.
  if (!ended.state->with_state.empty()) {
    if (saved_is_cut_) cut_ = std::move(saved_);
    saved_is_cut_ = false;
    saved_ = std::move(ended.state);
  }
  const std::vector<int> joined = views_.update(time, lost);
  // After a loss all go on from the common state of one of them.
  share_state(client, lost.empty() ? joined : views_.view());
  join(joined, time);
}

void SegmentedRun::share_state(Client& client, const std::vector<int>& to) {
  if (!agrees_ || !saved_) return;
  const auto has_it = [&](int worker) {
    return std::ranges::find(saved_->with_state, worker) != saved_->with_state.end();
  };
  if (saved_->with_state.empty() || (to.size() == 1 && has_it(to.front()))) return;
  client.share_state(*saved_, to);
}

void SegmentedRun::check_progress() {
  const std::uint64_t samples = of_root([&] { return of_.referee.progress().samples_count; });
  if (samples > reached_samples_) {
    reached_samples_ = samples;
    standstills_ = 0;
  }
  if (++standstills_ <= kMostStandstills) return;
  throw with_hint(runtime_failure("after {} losses in a row the run still stands at {} samples",
                                  kMostStandstills, reached_samples_),
                  "workers are lost faster than the run gets on; with --on-loss restart, make "
                  "checkpoints more often (--checkpoint-every)");
}

void SegmentedRun::join(const std::vector<int>& joined, Seconds time) {
  if (joined.empty()) return;
  double bytes = 0;
  if (saved_) {
    for (const auto& [name, field] : saved_->common) {
      bytes += static_cast<double>(field.span().size());
    }
  }
  bytes *= of_.state_ratio;
  Seconds arrived = time;
  if (of_.options.is_virtual()) {
    arrived += of_.network.latency + Seconds(bytes / of_.network.bytes_per_s);
  }
  for (const int worker : joined) starts_[at(worker)].clock = arrived;
  of_.referee.returned(joined, time, bytes);
}

// Rows are updated in place, so a run that may go back to a cut needs a copy of them.
void SegmentedRun::keep_tables() {
  if (!of_.scenario.has_failures()) return;
  for_each_shard_of(of_.tables, of_.cluster, [&](int worker, Shard& shard) {
    SavedFields& kept = cut_tables_[worker];
    kept.clear();
    Archive fields = Archive::saving(kept, kept);
    fields(kTables, shard);
  });
}

// The record and the tables stay in memory, and are only copied to be written.
void SegmentedRun::write_checkpoint() {
  if (of_.options.checkpoint.empty()) return;
  const auto begin = HostClock::now();
  SavedRun& saved = *saved_;
  const bool is_root = of_.options.processes().is_root();
  if (is_root) {
    Archive fields = Archive::saving(saved.run, saved.run);
    fields(kReferee, of_.referee);
  }
  for_each_shard_of(of_.tables, of_.cluster, [&](int rank, Shard& shard) {
    SavedFields& own = saved.workers[rank];
    Archive fields = Archive::saving(own, own);
    fields(kTables, shard);
  });
  try {
    of_.checkpoints.write(saved);
  } catch (const Error& error) {
    of_.referee.warn(fmt::format(
        "no checkpoint after {} samples: {}",
        of_.record.curve.empty() ? 0 : of_.record.curve.back().samples_count, error.what()));
  }
  const auto drop = [](SavedFields& from, const std::string& name) {
    std::erase_if(from, [&](const auto& field) { return field.first.starts_with(name + "/"); });
  };
  drop(saved.run, kReferee);
  for (auto& [rank, own] : saved.workers) drop(own, kTables);
  of_.referee.checkpointed(seconds_since(begin));
}

}  // namespace hetsgd
