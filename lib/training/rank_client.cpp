#include "training/rank_client.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/threads.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

namespace {

std::int32_t end_of(const Referee& referee) {
  if (referee.stopped()) return kRunEnds;
  return referee.is_followed() ? kSegmentEnds : 0;
}

constexpr Seconds kNoLimit = Seconds::max();

}  // namespace

RankClient::RankClient(Control& control, Referee& referee, const RunSetup& setup, Cluster& cluster,
                       Seconds peer_timeout)
    : Client(referee, setup),
      cluster_(cluster),
      rank_(control.rank()),
      ranks_(control.size()),
      view_(setup.view),
      calls_(control, peer_timeout),
      reports_(at(rules_.plan.workers)),
      replica_{.replica = setup.initial, .copy = {}},
      with_state_(view_) {
  load();
  if (setup_.may_lose) {
    stated_samples_ = state_.samples = setup_.samples;
    state_.due = 0;
  }
  receive_messages();
  if (rank_ != 0) return;
  started_ = true;
  if (!setup_.from) state_.accuracy = referee_.best_accuracy(0, 0).value_or(std::nan(""));
  announce();
}

void RankClient::receive_messages() {
  using Caller = RankCalls::Caller;
  calls_.on(kReport,
            [this](Caller from, const CountersAndExtra& report) { absorb(from.rank, report); });
  calls_.on(kState, [this](Caller, const State& state) {
    calls_.change([&] {
      started_ = true;
      take(state);
    });
  });
  calls_.on(kHoldPoints, [this](Caller from, Nothing) {
    std::uint64_t points = 0;
    calls_.change([&] {
      halting_ = true;
      points = points_;
    });
    calls_.answer(from, kHoldPoints, points);
  });
  calls_.on(kStopPoint, [this](Caller, const StopPoint& point) {
    calls_.change([&] { stop_point_ = point; });
  });
  calls_.on(kMeasure,
            [this](Caller from, ReceivedModel model) { on_model(from, std::move(model)); });
  // The next two come while the world is stopped: the replica is whole, and no row changes.
  calls_.on(kReplica, [this](Caller from, Nothing) {
    std::span<const float> replica;
    calls_.change([&] { replica = replica_.on_host(); });
    calls_.answer(from, kReplica, replica);
  });
  calls_.on(kRows, [this](Caller from, const std::vector<Index>& places) {
    calls_.answer(from, kRows, setup_.tables->shard(rank_).read(places));
  });
  calls_.on(kJoin, [this](Caller, Nothing) { end_for_joiners(); });
  calls_.on(kSettle, [this](Caller from, const std::optional<Settled>& worker) {
    calls_.change([&] {
      settling_.push_back(from);
      if (worker) settled_.push_back(*worker);
    });
  });
  calls_.on(kFields, [this](Caller, WorkerFields fields) {
    calls_.change([&] { got_ = std::move(fields); });
  });
  calls_.on(kTrace, [this](Caller from, Nothing) { calls_.change([&] { trace_asked_ = from; }); });
  calls_.listen();
}

// Rank 0's referee goes on from segment to segment, and so do those that follow it: they are behind
// only in a process that resumes.
void RankClient::fields(Archive& fields) {
  if (!fields.is_loading() || (setup_.resumes && rank_ != 0)) referee_.known(fields);
  fields("stated_samples", stated_samples_);
  fields("own_samples", own_samples_);
  fields("own_steps", own_steps_);
  fields("own_samples_at_state", own_samples_at_state_);
  fields("state", state_);
  state_.stop = 0;
}

void RankClient::begin(Worker& worker) {
  Client::begin(worker);
  {
    RankCalls::Lock lock = calls_.lock();
    calls_.await(lock, "rank 0 to begin", [&] { return started_; });
    if (setup_.may_lose) own_samples_ = own_samples_at_state_ = begun_samples_ = worker.samples();
  }
  if (!synchronous()) pool_.emplace(worker.serve<SamplePool>("samples"));
}

std::uint64_t RankClient::draw(int, std::uint64_t count) {
  return pool_->call(count, {}, {}, Traffic::control);
}

// Begins a point of a synchronous algorithm. The answer is the same on all ranks.
bool RankClient::stops_here(RankCalls::Lock& lock, bool at_running) {
  if (halting_ && state_.stop == 0) {
    calls_.await(lock, "rank 0 to say where all stop", [&] { return stop_point_.has_value(); });
  }
  const std::uint64_t point = points_++;
  return state_.stop != 0 || (stop_point_ && point >= stop_point_->point &&
                              (at_running || stop_point_->end == kRunEnds));
}

void RankClient::halt() {
  calls_.ask(view_, kHoldPoints, no_content, [this](const std::vector<std::uint64_t>& points) {
    const StopPoint stop{std::ranges::max(points), referee_.stopped() ? kRunEnds : kSegmentEnds};
    calls_.change([&] { stop_point_ = stop; });  // also where this rank has no worker
    for (const int to : view_) calls_.tell(to, kStopPoint, stop);
  });
}

LoopDecision RankClient::running(Worker& worker) {
  const bool joins = worker.running_calls() > 0 && worker.now() >= referee_.until();
  if (joins && !std::exchange(join_told_, true)) calls_.tell(0, kJoin);
  RankCalls::Lock lock = calls_.lock();
  if (synchronous()) {
    const bool yes = !stops_here(lock, true);
    const std::int32_t end = state_.stop == 0 && stop_point_ ? stop_point_->end : state_.stop;
    return {.yes = yes, .samples = stated_samples_, .is_followed = !yes && end == kSegmentEnds};
  }
  const std::uint64_t since = worker.samples() - own_samples_at_state_;
  return {.yes = state_.stop == 0 && !losing_,
          .samples = state_.samples + since * view_.size(),
          .is_followed = state_.stop == kSegmentEnds || losing_};
}

void RankClient::end_budget() {
  referee_.end_budget();
  const RankCalls::Lock lock = calls_.lock();
  pending_.budget_ended = true;
}

void RankClient::completed(Worker& worker, const LearntBatch& batch) {
  worker.endpoint().note_batch(batch.samples);
  bool tell = !synchronous();
  {
    const RankCalls::Lock lock = calls_.lock();
    const Seconds now = worker.now();
    pending_.add_step(batch, now);
    own_samples_ = worker.samples();
    if (rules_.plan.record_steps) {
      extra_["events"].push_back(step_event(worker, own_steps_, batch, now));
    }
    ++own_steps_;
    tell = tell || (!std::isfinite(batch.loss) && !std::exchange(diverged_, true));
  }
  if (tell) report(worker);
}

// The next report carries the discarded samples as a negative difference. Rank 0 adds the
// differences modulo 2^64.
void RankClient::discarded(Worker& worker, std::uint64_t samples) {
  const RankCalls::Lock lock = calls_.lock();
  pending_.samples -= samples;
  own_samples_ = worker.samples();
}

void RankClient::updated() {
  const RankCalls::Lock lock = calls_.lock();
  ++pending_.updates;
}

// --- reports -----------------------------------------------------------------------------------

void RankClient::report(Worker& worker, bool is_evaluation) {
  CountersAndExtra sent;
  {
    const RankCalls::Lock lock = calls_.lock();
    Referee::Counters& counters = sent.counters;
    counters = std::exchange(pending_, {});
    if (is_evaluation) ++last_evaluation_;
    counters.evaluation = last_evaluation_;
    counters.running_calls = worker.running_calls();
    counters.worker = WorkerTotals::of(worker);
    const nlohmann::json extra = std::exchange(extra_, nullptr);
    if (!extra.is_null()) sent.extra = nlohmann::json::to_cbor(extra);
  }
  if (rank_ == 0) {
    absorb(0, sent);
  } else {
    calls_.tell(0, kReport, sent);
  }
}

void RankClient::absorb(int from, const CountersAndExtra& report) {
  const Referee::Counters& counters = report.counters;
  referee_.absorb(from, counters);
  if (!report.extra.empty()) referee_.absorb(nlohmann::json::from_cbor(report.extra));
  bool due = false, stop = false;
  calls_.change([&] {
    reports_[at(from)] = {counters.evaluation, counters.running_calls};
    stop = referee_.stopped() && !std::exchange(stop_told_, true);
    due = !synchronous() && state_.due == 0 && referee_.due(Seconds(counters.time_s));
    if (due) state_.due = ++evaluations_;
  });
  if (stop && synchronous()) halt();
  if (due || (stop && !synchronous())) announce();
}

// Rank 0 sends its decisions to all others.
void RankClient::announce() {
  State state;
  calls_.change([&] {
    state_.stop = end_of(referee_);
    state_.samples = referee_.progress().samples_count;
    state = state_;
    take(state);
  });
  for (const int to : view_) {
    if (to != 0) calls_.tell(to, kState, state);
  }
}

void RankClient::take(const State& state, Seconds now) {
  state_ = state;
  own_samples_at_state_ = own_samples_;
  if (rank_ != 0) referee_.follow(now, state.measured, state.accuracy);
}

// --- evaluations, by all ranks together or by one of them with the world stopped -----------------

void RankClient::evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                               const std::function<std::span<const float>()>& model) {
  if (!synchronous()) return evaluate_alone(worker, model);
  {
    RankCalls::Lock lock = calls_.lock();
    if (stops_here(lock, false)) return;
  }
  // A worker's own count has work of earlier segments that was for nothing.
  std::uint64_t n = samples.value_or(worker.samples() - begun_samples_);
  if (!samples && view_.size() > 1) {
    std::int64_t sum = static_cast<std::int64_t>(n);
    worker.comm().all_reduce(std::span(&sum, 1));
    n = static_cast<std::uint64_t>(sum);
  }
  if (!samples && setup_.may_lose) n += setup_.samples;
  double now_s = worker.now().count();
  if (rules_.max_time.count() > 0 && view_.size() > 1) {
    worker.comm().all_reduce(std::span(&now_s, 1), ReduceOp::max);
  }
  calls_.change([&] { stated_samples_ = n; });
  if (referee_.due_by_budget(Seconds(now_s), n))
    evaluate_together(worker, Seconds(now_s), n, model);
}

void RankClient::evaluate_together(Worker& worker, Seconds now, std::uint64_t samples,
                                   const std::function<std::span<const float>()>& model) {
  report(worker, true);
  if (setup_.tables) worker.device().synchronize();  // the control thread reads its rows
  const Together at{.evaluation = last_evaluation_,
                    .now_s = now.count(),
                    .samples = samples,
                    .running_calls = worker.running_calls()};
  worker.endpoint().while_paused_together([&] { have_measured(worker, 0, at, model); });
  State state;
  calls_.change([&] { state = state_; });
  worker.comm().broadcast(std::span(&state, 1), 0);
  calls_.change([&] { take(state, now); });
}

void RankClient::evaluate_alone(Worker& worker,
                                const std::function<std::span<const float>()>& model) {
  if (due_number() == 0) return;
  worker.endpoint().while_paused([&] {
    const std::int32_t due = due_number();  // another rank may have been first
    if (due != 0) have_measured(worker, due, {}, model);
  });
}

std::int32_t RankClient::due_number() const {
  const RankCalls::Lock lock = calls_.lock();
  return state_.stop == 0 ? state_.due : 0;
}

bool RankClient::evaluation_due(Worker&) const { return due_number() != 0; }

void RankClient::have_measured(Worker& worker, std::int32_t due, const Together& together,
                               const std::function<std::span<const float>()>& model) {
  if (rank_ == 0) return measure_here(worker.now(), together, [&] { return prepare(model); });
  const PreparedModel prepared = prepare(model);
  const SentModel sent{.time_s = worker.now().count(),
                       .prepare_s = prepared.host_s,
                       .due = due,
                       .together = together,
                       .parameters = prepared.parameters};
  // There is no limit, because a measurement may take long and the loss of rank 0 fails the run.
  const auto states = calls_.ask_and_wait(
      kRoot, kMeasure, [&](int) { return sent; }, kNoLimit);
  // Asynchronous ranks have got this decision, and perhaps a later one, as an announcement.
  if (synchronous()) calls_.change([&] { state_ = states.front(); });
}

void RankClient::on_model(RankCalls::Caller from, ReceivedModel sent) {
  bool current = false;
  calls_.change([&] { current = state_.due == sent.due; });
  if (evaluation_.joinable()) evaluation_.join();
  // Measuring takes long, and the control thread sends the heartbeats.
  evaluation_ = start_thread<std::jthread>(
      "measuring a model", [this, from, current, model = std::move(sent)] {
        try {
          if (current) {
            measure_here(Seconds(model.time_s), model.together, [&] {
              return PreparedModel{.parameters = model.parameters, .host_s = model.prepare_s};
            });
          }
        } catch (...) {
          return cluster_.abort(std::current_exception());
        }
        State state;
        calls_.change([&] { state = state_; });
        calls_.answer(from, kMeasure, state);
      });
}

void RankClient::measure_here(Seconds time, const Together& together,
                              const std::function<PreparedModel()>& prepared) {
  if (synchronous()) await_reports(together);
  const Referee::Point point =
      synchronous() ? referee_.evaluation_point(Seconds(together.now_s), together.samples)
                    : referee_.evaluation_point(time, {});
  std::optional<CurvePoint> measured;
  if (point.due) {  // else the reports have ended the run
    PreparedModel model = prepared();
    model.rows = gather_rows();
    measured = referee_.measure(time, point.samples, model);
  }
  calls_.change([&] {
    state_.stop = end_of(referee_);
    stop_told_ = stop_told_ || state_.stop != 0;
    state_.due = 0;
    state_.samples = point.samples;
    if (!measured) return;
    state_.measured = point.samples;
    state_.accuracy = Accuracies::of(*measured);
  });
  if (!synchronous()) announce();
}

void RankClient::await_reports(const Together& at) {
  RankCalls::Lock lock = calls_.lock();
  calls_.await(lock, "the reports of all ranks", [&] {
    return std::ranges::all_of(view_, [&](int worker) {
      return reports_[hetsgd::at(worker)].evaluation >= at.evaluation;
    });
  });
  for (const int worker : view_) {
    const Reported& rank = reports_[hetsgd::at(worker)];
    if (rank.running_calls == at.running_calls) continue;
    throw unequal_calls(at.running_calls, rank.running_calls,
                        fmt::format("evaluation {}", at.evaluation));
  }
}

void RankClient::publish(int, Device& device, std::span<const float> replica) {
  const RankCalls::Lock lock = calls_.lock();
  replica_ = {.device = &device, .replica = replica, .copy = {}};
}

const RowSource* RankClient::gather_rows() {
  if (!setup_.tables) return nullptr;
  if (!rows_) rows_.emplace(setup_.tables->plan(), setup_.measured_rows);
  const auto all =
      calls_.ask_and_wait(view_, kRows, [this](int rank) { return rows_->places(rank); });
  for (std::size_t i = 0; i < view_.size(); ++i) rows_->take(view_[i], all[i]);
  return &*rows_;
}

std::span<const float> RankClient::mean_of_published() {
  const auto all = calls_.ask_and_wait(view_, kReplica, no_content);
  mean_.resize(model().parameters());
  const std::vector<std::span<const float>> replicas(all.begin(), all.end());
  mean_of(replicas, mean_);
  return mean_;
}

// --- what the result shows -----------------------------------------------------------------------

void RankClient::record(Seconds time, nlohmann::json event) {
  event["time_s"] = time.count();
  const RankCalls::Lock lock = calls_.lock();
  extra_["events"].push_back(std::move(event));
}

void RankClient::observe(const std::string& histogram, std::int64_t value) {
  const RankCalls::Lock lock = calls_.lock();
  nlohmann::json& count = extra_["histograms"][histogram][std::to_string(value)];
  count = count.is_null() ? 1 : count.get<std::uint64_t>() + 1;
}

void RankClient::warn(const std::string& text) {
  const RankCalls::Lock lock = calls_.lock();
  extra_["warnings"].push_back(text);
}

// --- the end of a segment: all ranks report, agree and hand over ---------------------------------

// Evaluations that synchronous workers come to before they stop are made.
void RankClient::end_for_joiners() {
  if (!synchronous()) {
    referee_.end_segment();
    return announce();
  }
  bool tell = false;
  calls_.change([&] { tell = !std::exchange(stop_told_, true); });
  if (tell) halt();
}

// Synchronous ones come no further than to their next call, on all ranks alike.
void RankClient::losing() {
  const RankCalls::Lock lock = calls_.lock();
  losing_ = true;
}

void RankClient::end(Worker& worker) {
  report(worker);
  last_reported_ = true;
  Client::end(worker);
}

void RankClient::leave(Worker& worker) noexcept {
  if (setup_.may_lose && !last_reported_) report(worker);
  Client::leave(worker);
}

bool RankClient::await_end(const std::map<int, Seconds>& lost) {
  std::optional<Settled> mine;
  if (std::ranges::find(view_, rank_) != view_.end()) {
    mine = Settled{.worker = rank_, .has_state = state().has_kept(rank_)};
    // Without an entry the worker was unwound before it began.
    if (const auto found = unsettled_.find(rank_); found != unsettled_.end()) {
      mine->samples = found->second;
    }
  }
  Outcome outcome;
  if (rank_ == 0) {
    outcome = decide(lost, mine);
  } else {
    outcome = std::move(calls_.ask_and_wait(kRoot, kSettle, [&](int) { return mine; }).front());
    Archive fields = Archive::loading(outcome.known, outcome.known, "what rank 0 knows");
    referee_.known(fields);
  }
  if (setup_.may_lose) with_state_.clear();
  for (const Settled& each : outcome.workers) {
    unsettled_[each.worker] = each.samples;
    if (!setup_.may_lose || each.has_state == 0 || lost.contains(each.worker)) continue;
    with_state_.push_back(each.worker);
  }
  std::ranges::sort(with_state_);
  return outcome.follows;
}

// A rank's last report comes before its question.
Outcome RankClient::decide(const std::map<int, Seconds>& lost, const std::optional<Settled>& mine) {
  RankCalls::Lock lock = calls_.lock();
  calls_.await(lock, "the last reports of all ranks",
               [&] { return settling_.size() + 1 == at(ranks_); });
  if (mine) settled_.push_back(*mine);
  referee_.sort_events();
  if (stop_point_ && stop_point_->end == kSegmentEnds) referee_.end_segment();
  Outcome outcome{.follows = lost.empty() ? referee_.is_followed() : referee_.goes_on_after_loss(),
                  .workers = settled_};
  Archive fields = Archive::saving(outcome.known, outcome.known);
  referee_.known(fields);
  lock.unlock();
  for (const RankCalls::Caller& to : settling_) calls_.answer(to, kSettle, outcome);
  return outcome;
}

void RankClient::complete(SavedRun& saved) const { saved.with_state = with_state_; }

void RankClient::share_state(SavedRun& saved, const std::vector<int>& to) {
  const int from = saved.with_state.front();
  if (rank_ == from) {
    SavedFields& own = saved.workers[from];
    WorkerFields fields{std::move(saved.common), std::move(own)};  // lent to the messages
    for (const int worker : to) {
      if (worker != from) calls_.tell(worker, kFields, fields);
    }
    saved.common = std::move(fields.common);
    own = std::move(fields.own);
    return;
  }
  if (std::ranges::find(to, rank_) == to.end()) return;
  RankCalls::Lock lock = calls_.lock();
  calls_.await(lock, "the state of another worker", [&] { return got_.has_value(); });
  saved.common = std::move(got_->common);
  saved.workers[from] = std::move(got_->own);
  got_.reset();
}

void RankClient::gather(Trace& trace) {
  if (rank_ >= rules_.plan.workers) return;  // this rank runs services and no worker
  rank_ == 0 ? take_traces(trace) : send_trace(trace);
}

// One part of each rank at a time, so that neither side holds the whole trace in memory.
void RankClient::send_trace(const Trace& trace) {
  const auto send_part = [this](const TracePart& part) {
    RankCalls::Lock lock = calls_.lock();
    calls_.await(lock, "rank 0 to ask for the trace", [&] { return trace_asked_.has_value(); });
    const RankCalls::Caller asked = *std::exchange(trace_asked_, std::nullopt);
    lock.unlock();
    calls_.answer(asked, kTrace, part);
  };
  for (const RecordedLine* line : trace.recorded()) {
    send_part({.begins = *line, .labels = line->calls.labels()});
    for (std::size_t i = 0; i < line->calls.chunks(); ++i) {
      send_part({.chunk = line->calls.chunk(i)});
    }
  }
  send_part({.is_last = true});
}

void RankClient::take_traces(Trace& trace) {
  std::vector<int> from;
  for (int rank = 1; rank < rules_.plan.workers; ++rank) from.push_back(rank);
  std::map<int, RecordedLine*> lines;  // by rank, the one that is being taken
  while (!from.empty()) {
    std::vector<TracePart> parts = calls_.ask_and_wait(from, kTrace, no_content);
    std::vector<int> left;
    for (std::size_t i = 0; i < from.size(); ++i) {
      TracePart& part = parts[i];
      if (part.is_last) continue;
      left.push_back(from[i]);
      RecordedLine*& line = lines[from[i]];
      if (part.begins) {
        line = &trace.add(std::move(*part.begins));
        for (const CallLabel& label : part.labels) line->calls.label(label);
      }
      const std::string what = fmt::format("{} of rank {}", kTrace.name, from[i]);
      if (line == nullptr) throw data_error("{}: found calls, expected a line before them", what);
      line->calls.append(part.chunk, what);
    }
    from = std::move(left);
  }
}

}  // namespace hetsgd
