#include "training/rank_client.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/threads.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

namespace {

// The number of clients made so far. It gives each run its own kinds of messages. So a late message
// of an earlier run, or an early one of the next, cannot be taken for another.
std::atomic<int> clients_made{0};

std::int32_t end_of(const Referee& referee) {
  if (referee.stopped()) return kRunEnds;
  return referee.is_followed() ? kSegmentEnds : 0;
}

// The longest time until a thread that waits for a message notices that the run has failed.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

// Lets messages in while the client lives. The handlers themselves stay registered with the control
// channel.
class RankClient::HandlerGuard {
 public:
  template <class Fn>
  void enter(Fn fn) {
    const std::lock_guard lock(mutex_);
    if (open_) fn();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }

 private:
  std::mutex mutex_;
  bool open_ = true;
};

template <class Message, class Handle>
void RankClient::on(const Message& message, Handle handle) {
  control_.on_message(first_kind_ + message.place,
                      [handle, name = message.name, guard = handler_guard_](
                          int from, std::span<const std::byte> bytes) {
                        guard->enter([&] {
                          handle(from, from_bytes<typename Message::Received>(
                                           bytes, fmt::format("{} of rank {}", name, from)));
                        });
                      });
}

template <class Change>
void RankClient::change(Change apply) {
  const std::lock_guard lock(mutex_);
  apply();
  changed_.notify_all();
}

RankClient::RankClient(Control& control, Referee& referee, const RunSetup& setup, Cluster& cluster,
                       Seconds peer_timeout)
    : Client(referee, setup),
      control_(control),
      cluster_(cluster),
      peer_timeout_(peer_timeout),
      rank_(control.rank()),
      view_(setup.view),
      size_(static_cast<int>(view_.size())),
      first_kind_(kMessages * clients_made++),
      handler_guard_(std::make_shared<HandlerGuard>()),
      budget_(rules_),
      reports_(at(rules_.plan.workers)),
      replica_{.replica = setup.initial, .copy = {}},
      with_state_(view_),
      gathered_(at(size_)) {
  load();
  if (setup_.known) {
    Archive fields = Archive::loading(*setup_.known, *setup_.known, "what rank 0 knows");
    fields("budget", budget_);
    fields("accuracies", accuracies_);
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
  on(kReport, [this](int from, const CountersAndExtra& report) { absorb(from, report); });
  on(kState, [this](int, const State& state) {
    const std::lock_guard lock(mutex_);
    started_ = true;
    take(state);
  });
  on(kHalt, [this](int, Nothing) {
    std::unique_lock lock(mutex_);
    halting_ = true;
    const std::uint64_t points = points_;
    lock.unlock();
    send(0, kStand, points);
  });
  on(kStand, [this](int, std::uint64_t points) { on_stand(points); });
  on(kStopPoint, [this](int, const StopPoint& point) { change([&] { stop_point_ = point; }); });
  on(kModel, [this](int from, ReceivedModel model) { on_model(from, std::move(model)); });
  on(kMeasured, [this](int, const State& state) {
    change([&] {
      state_ = state;
      measured_ = true;
    });
  });
  on(kAskReplica, [this](int from, Nothing) { send_replica(from); });
  on(kReplica, [this](int from, std::vector<float> replica) {
    change([&] {
      gathered_[at(static_cast<int>(std::ranges::find(view_, from) - view_.begin()))] =
          std::move(replica);
      ++gathered_count_;
    });
  });
  on(kAskRows, [this](int from, const std::vector<Index>& places) { send_rows(from, places); });
  on(kRows, [this](int from, const std::vector<float>& rows) {
    change([&] {
      rows_->take(from, rows);
      ++rows_gathered_;
    });
  });
  on(kEnd, [this](int, std::uint8_t follows) { change([&] { is_followed_ = follows != 0; }); });
  on(kJoin, [this](int, Nothing) { end_for_joiners(); });
  on(kSettled, [this](int, const Settled& worker) { change([&] { settled_.push_back(worker); }); });
  on(kOutcome, [this](int, Outcome outcome) { change([&] { outcome_ = std::move(outcome); }); });
  on(kFields, [this](int, WorkerFields fields) { change([&] { got_ = std::move(fields); }); });
  on(kAskTrace, [this](int, Nothing) { change([&] { ++traces_asked_; }); });
  on(kTrace, [this](int from, TracePart part) {
    change([&] { traces_.emplace_back(from, std::move(part)); });
  });
}

void RankClient::fields(Archive& fields) {
  fields("budget", budget_);
  fields("accuracies", accuracies_);
  fields("stated_samples", stated_samples_);
  fields("own_samples", own_samples_);
  fields("own_steps", own_steps_);
  fields("own_samples_at_state", own_samples_at_state_);
  fields("state", state_);
  state_.stop = 0;
}

RankClient::~RankClient() { handler_guard_->close(); }

void RankClient::await(std::unique_lock<std::mutex>& lock, const char* what, Seconds limit,
                       const std::function<bool()>& ready) {
  const auto begin = std::chrono::steady_clock::now();
  while (!changed_.wait_for(lock, kLook, ready)) {
    if (control_.failing()) {
      throw runtime_failure("rank {}: the run failed while it waited for {}", rank_, what);
    }
    if (std::chrono::steady_clock::now() - begin > limit) {
      throw with_hint(
          runtime_failure("rank {}: waited {:.3g} s for {}", rank_, limit.count(), what),
          "if a message can take so long, raise --peer-timeout");
    }
  }
}

void RankClient::begin(Worker& worker) {
  Client::begin(worker);
  {
    std::unique_lock lock(mutex_);
    await(lock, "rank 0 to begin", peer_timeout_, [&] { return started_; });
    if (setup_.may_lose) own_samples_ = own_samples_at_state_ = begun_samples_ = worker.samples();
  }
  if (!synchronous()) pool_.emplace(worker.serve<SamplePool>("samples"));
}

std::uint64_t RankClient::draw(int, std::uint64_t count) {
  return pool_->call(count, {}, {}, Traffic::control);
}

// Begins a point of a synchronous algorithm. The answer is the same on all ranks.
bool RankClient::stops_here(std::unique_lock<std::mutex>& lock, bool at_running) {
  if (halting_ && state_.stop == 0) {
    await(lock, "rank 0 to say where all stop", peer_timeout_,
          [&] { return stop_point_.has_value(); });
  }
  const std::uint64_t point = points_++;
  return state_.stop != 0 || (stop_point_ && point >= stop_point_->point &&
                              (at_running || stop_point_->end == kRunEnds));
}

void RankClient::halt() {
  for (const int to : view_) send(to, kHalt);
}

// Runs on the control thread of rank 0.
void RankClient::on_stand(std::uint64_t points) {
  std::unique_lock lock(mutex_);
  furthest_ = std::max(furthest_, points);
  const bool all = ++stands_ == size_;
  if (!all) return;
  const StopPoint stop{furthest_, referee_.stopped() ? kRunEnds : kSegmentEnds};
  stop_point_ = stop;  // also where this rank has no worker
  lock.unlock();
  for (const int to : view_) send(to, kStopPoint, stop);
}

LoopDecision RankClient::running(Worker& worker) {
  const bool joins = worker.running_calls() > 0 && worker.now() >= referee_.until();
  if (joins && !std::exchange(join_told_, true)) send(0, kJoin);
  std::unique_lock lock(mutex_);
  if (synchronous()) {
    const bool yes = !stops_here(lock, true);
    const std::int32_t end = state_.stop == 0 && stop_point_ ? stop_point_->end : state_.stop;
    return {.yes = yes, .samples = stated_samples_, .is_followed = !yes && end == kSegmentEnds};
  }
  const std::uint64_t since = worker.samples() - own_samples_at_state_;
  return {.yes = state_.stop == 0 && !losing_,
          .samples = state_.samples + since * static_cast<std::uint64_t>(size_),
          .is_followed = state_.stop == kSegmentEnds || losing_};
}

void RankClient::end_budget() {
  const std::lock_guard lock(mutex_);
  budget_.end();
}

void RankClient::completed(Worker& worker, const LearntBatch& batch) {
  trace_batch(worker, batch.samples);
  bool tell = !synchronous();
  {
    const std::lock_guard lock(mutex_);
    const Seconds now = worker.now();
    pending_.add_step(batch, now);
    own_samples_ = worker.samples();
    if (rules_.plan.record_steps) {
      events_.push_back(step_event(worker, own_steps_, batch, now));
    }
    ++own_steps_;
    tell = tell || (!std::isfinite(batch.loss) && !std::exchange(diverged_, true));
  }
  if (tell) report(worker, Report::step);
}

// The next report carries the discarded samples as a negative difference. Rank 0 adds the
// differences modulo 2^64.
void RankClient::discarded(Worker& worker, std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  pending_.samples -= samples;
  own_samples_ = worker.samples();
}

void RankClient::updated() {
  const std::lock_guard lock(mutex_);
  ++pending_.updates;
}

// --- reports -----------------------------------------------------------------------------------

void RankClient::report(Worker& worker, Report what) {
  nlohmann::json extra = nlohmann::json::object();
  CountersAndExtra sent;
  {
    const std::lock_guard lock(mutex_);
    Referee::Counters& counters = sent.counters;
    counters = std::exchange(pending_, {});
    counters.last = what == Report::last;
    last_reported_ = last_reported_ || counters.last;
    counters.budget_ended = budget_.ended();
    if (what == Report::evaluation) ++last_evaluation_;
    counters.evaluation = last_evaluation_;
    counters.running_calls = worker.running_calls();
    counters.worker = WorkerTotals::of(worker);
    if (!events_.empty()) extra["events"] = std::exchange(events_, nlohmann::json::array());
    if (!histograms_.empty()) extra["histograms"] = std::exchange(histograms_, {});
    if (!warnings_.empty()) extra["warnings"] = std::exchange(warnings_, {});
  }
  if (!extra.empty()) sent.extra = nlohmann::json::to_cbor(extra);
  if (rank_ == 0) {
    absorb(0, sent);
  } else {
    send(0, kReport, sent);
  }
}

void RankClient::absorb(int from, const CountersAndExtra& report) {
  const Referee::Counters& counters = report.counters;
  referee_.absorb(from, counters);
  if (!report.extra.empty()) referee_.absorb(nlohmann::json::from_cbor(report.extra));
  bool due = false, stop = false;
  {
    const std::lock_guard lock(mutex_);
    reports_[at(from)] = {counters.evaluation, counters.running_calls};
    ended_ += counters.last;
    stop = referee_.stopped() && !std::exchange(stop_told_, true);
    due = !synchronous() && state_.due == 0 && referee_.due(Seconds(counters.time_s));
    if (due) state_.due = ++evaluations_;
    changed_.notify_all();
  }
  if (stop && synchronous()) halt();
  if (due || (stop && !synchronous())) announce();
}

// Rank 0 sends its decisions to all others.
void RankClient::announce() {
  State state;
  {
    const std::lock_guard lock(mutex_);
    state_.stop = end_of(referee_);
    state_.samples = referee_.progress().samples_count;
    state = state_;
    take(state);
  }
  for (const int to : view_) {
    if (to != 0) send(to, kState, state);
  }
}

// Mutex held.
void RankClient::take(const State& state) {
  state_ = state;
  own_samples_at_state_ = own_samples_;
  accuracies_.add(state.measured, state.accuracy);
  changed_.notify_all();
}

// --- evaluations, by all ranks together or by one of them with the world stopped -----------------

void RankClient::evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                               const std::function<std::span<const float>()>& model) {
  if (!synchronous()) return evaluate_alone(worker, model);
  {
    std::unique_lock lock(mutex_);
    if (stops_here(lock, false)) return;
  }
  // A worker's own count has work of earlier segments that was for nothing.
  std::uint64_t n = samples.value_or(worker.samples() - begun_samples_);
  if (!samples && size_ > 1) {
    std::int64_t sum = static_cast<std::int64_t>(n);
    worker.comm().all_reduce(std::span(&sum, 1));
    n = static_cast<std::uint64_t>(sum);
  }
  if (!samples && setup_.may_lose) n += setup_.samples;
  double now_s = worker.now().count();
  if (rules_.max_time.count() > 0 && size_ > 1) {
    worker.comm().all_reduce(std::span(&now_s, 1), ReduceOp::max);
  }
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    stated_samples_ = n;
    due = budget_.take_due(Seconds(now_s), n);
  }
  if (due) evaluate_together(worker, Seconds(now_s), n, model);
}

void RankClient::evaluate_together(Worker& worker, Seconds now, std::uint64_t samples,
                                   const std::function<std::span<const float>()>& model) {
  report(worker, Report::evaluation);
  if (setup_.tables) worker.device().synchronize();  // the control thread reads its rows
  const Together at{.evaluation = last_evaluation_,
                    .now_s = now.count(),
                    .samples = samples,
                    .running_calls = worker.running_calls()};
  worker.endpoint().while_paused_together([&] {  // the first worker
    if (rank_ != 0) return ask_to_measure(worker, prepare(model), 0, at);
    measure_together(worker.now(), at, [&] { return prepare(model); });
  });
  State state;
  {
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  worker.comm().broadcast(std::span(&state, 1), 0);
  const std::lock_guard lock(mutex_);
  take(state);
}

// Runs on rank 0, with the world stopped.
void RankClient::measure_together(Seconds time, const Together& at,
                                  const std::function<PreparedModel()>& prepared) {
  std::unique_lock lock(mutex_);
  await(lock, "the reports of all ranks", peer_timeout_, [&] {
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
  lock.unlock();
  const Referee::Point point = referee_.evaluation_point(Seconds(at.now_s), at.samples);
  PreparedModel result;
  if (point.due) {
    result = prepared();
    result.rows = gather_rows();
  }
  measure_due(time, point, result);
}

// Runs on rank 0, with the world stopped. If the point is not due, the reports have ended the run.
void RankClient::measure_due(Seconds time, const Referee::Point& point,
                             const PreparedModel& model) {
  std::optional<CurvePoint> measured;
  if (point.due) measured = referee_.measure(time, point.samples, model);
  const std::lock_guard lock(mutex_);
  state_.stop = end_of(referee_);
  stop_told_ = stop_told_ || state_.stop != 0;
  state_.due = 0;
  state_.samples = point.samples;
  if (!measured) return;
  state_.measured = point.samples;
  state_.accuracy = Accuracies::of(*measured);
}

std::int32_t RankClient::due_number() const {
  const std::lock_guard lock(mutex_);
  return state_.stop == 0 ? state_.due : 0;
}

bool RankClient::evaluation_due(Worker&) const { return due_number() != 0; }

void RankClient::evaluate_alone(Worker& worker,
                                const std::function<std::span<const float>()>& model) {
  if (due_number() == 0) return;
  worker.endpoint().while_paused([&] {
    const std::int32_t number = due_number();  // another rank may have been first
    if (number == 0) return;
    PreparedModel result = prepare(model);
    if (rank_ == 0) {
      result.rows = gather_rows();
      measure_alone(worker.now(), result);
      return;
    }
    ask_to_measure(worker, result, number, {});
  });
}

void RankClient::ask_to_measure(Worker& worker, const PreparedModel& model, std::int32_t due,
                                const Together& at) {
  std::unique_lock lock(mutex_);
  measured_ = false;
  lock.unlock();
  send(0, kModel,
       {.time_s = worker.now().count(),
        .prepare_s = model.host_s,
        .due = due,
        .together = at,
        .parameters = model.parameters});
  lock.lock();
  // There is no limit, because a measurement may take long and the loss of rank 0 fails the run.
  await(lock, "rank 0 to measure a model", Seconds::max(), [&] { return measured_; });
}

void RankClient::measure_alone(Seconds time, const PreparedModel& model) {
  measure_due(time, referee_.evaluation_point(time, {}), model);
  announce();
}

// Runs on the control thread of rank 0. Measuring takes long and that thread sends the heartbeats,
// so the measurement gets a thread of its own.
void RankClient::on_model(int from, ReceivedModel sent) {
  bool current = false;
  {
    const std::lock_guard lock(mutex_);
    current = state_.due == sent.due;
  }
  if (evaluation_.joinable()) evaluation_.join();
  evaluation_ = start_thread<std::jthread>(
      "measuring a model", [this, from, current, model = std::move(sent)] {
        try {
          PreparedModel prepared{.parameters = model.parameters, .host_s = model.prepare_s};
          const Seconds time(model.time_s);
          if (model.together.evaluation > 0) {
            measure_together(time, model.together, [&] { return prepared; });
          } else if (current) {
            prepared.rows = gather_rows();
            measure_alone(time, prepared);
          }
        } catch (...) {
          return cluster_.abort(std::current_exception());
        }
        State state;
        {
          const std::lock_guard lock(mutex_);
          state = state_;
        }
        send(from, kMeasured, state);
      });
}

void RankClient::publish(int, Device& device, std::span<const float> replica) {
  const std::lock_guard lock(mutex_);
  replica_ = {.device = &device, .replica = replica, .copy = {}};
}

// Runs on the control thread. The world is stopped, so the replica is whole.
void RankClient::send_replica(int to) {
  std::span<const float> replica;
  {
    const std::lock_guard lock(mutex_);
    replica = replica_.on_host();
  }
  send(to, kReplica, replica);
}

template <class Message, class Question>
void RankClient::ask_all(const Message& message, Question question_for, int& answers,
                         const char* what) {
  std::unique_lock lock(mutex_);
  answers = 0;
  lock.unlock();
  for (const int rank : view_) send(rank, message, question_for(rank));
  lock.lock();
  await(lock, what, peer_timeout_, [&] { return answers == size_; });
}

const RowSource* RankClient::gather_rows() {
  if (!setup_.tables) return nullptr;
  if (!rows_) rows_.emplace(setup_.tables->plan(), setup_.measured_rows);
  ask_all(
      kAskRows, [this](int rank) { return rows_->places(rank); }, rows_gathered_,
      "the rows of all ranks");
  return &*rows_;
}

// Runs on the control thread. The world is stopped, so no row changes.
void RankClient::send_rows(int to, std::span<const Index> places) {
  const std::vector<float> rows = setup_.tables->shard(rank_).read(places);
  send(to, kRows, rows);
}

std::span<const float> RankClient::mean_of_published() {
  ask_all(
      kAskReplica, [](int) { return Nothing{}; }, gathered_count_, "the replicas of all ranks");
  mean_.resize(model().parameters());
  std::vector<std::span<const float>> replicas(gathered_.begin(), gathered_.end());
  mean_of(replicas, mean_);
  return mean_;
}

std::optional<double> RankClient::best_accuracy(std::uint64_t from, std::uint64_t to) const {
  const std::lock_guard lock(mutex_);
  return accuracies_.best(from, to);
}

// --- what the result shows -----------------------------------------------------------------------

void RankClient::record(Seconds time, nlohmann::json event) {
  event["time_s"] = time.count();
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

void RankClient::observe(const std::string& histogram, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  ++histograms_[histogram][value];
}

void RankClient::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(text);
}

}  // namespace hetsgd
