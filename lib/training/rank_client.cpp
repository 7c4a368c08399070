#include "training/rank_client.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "training/rank_messages.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

namespace {

// A message of an earlier run that comes late, or of the next one that comes early, has a kind of
// its own.
std::atomic<int> clients_made{0};

// A failed run is noticed so late at most by who waits for a message.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

// The cursor of the shared pool.
class RankClient::Pool final : public Service<std::uint64_t, std::uint64_t> {
 public:
  void handle(int, const std::uint64_t& count, std::span<const float>,
              Responder<std::uint64_t> reply) override {
    reply(cursor_);
    cursor_ += count;
  }

 private:
  std::uint64_t cursor_ = 0;
};

// Lets messages in while the client lives; the handlers stay with the control channel.
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

template <class Handle>
void RankClient::on(int message, Handle handle) {
  control_.on_message(kind(message),
                      [handle, door = handler_guard_](int from, std::span<const std::byte> bytes) {
                        door->enter([&] { handle(from, bytes); });
                      });
}

RankClient::RankClient(Control& control, Referee& referee, const RunSetup& setup, Cluster& cluster,
                       Seconds peer_timeout)
    : Client(referee, setup),
      control_(control),
      cluster_(cluster),
      peer_timeout_(peer_timeout),
      rank_(control.rank()),
      size_(referee.rules().plan.workers),
      first_kind_(kMessages * clients_made++),
      handler_guard_(std::make_shared<HandlerGuard>()),
      next_evaluation_(rules_.evaluate_every),
      reports_(static_cast<std::size_t>(size_)),
      replica_{.replica = setup.initial, .copy = {}},
      gathered_(static_cast<std::size_t>(size_)) {
  using Bytes = std::span<const std::byte>;
  on(kReport, [this](int from, Bytes bytes) { absorb(from, bytes); });
  on(kState, [this](int, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    started_ = true;
    take(from_bytes<State>(bytes, "the state of the run"));
  });
  on(kHalt, [this](int, Bytes) {
    std::unique_lock lock(mutex_);
    halting_ = true;
    const std::uint64_t points = points_;
    lock.unlock();
    control_.send(0, kind(kStand), to_bytes(points));
  });
  on(kStand,
     [this](int, Bytes bytes) { on_stand(from_bytes<std::uint64_t>(bytes, "a stop point")); });
  on(kStopPoint, [this](int, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    stop_point_ = from_bytes<std::uint64_t>(bytes, "the stop point");
    changed_.notify_all();
  });
  on(kModel, [this](int from, Bytes bytes) { on_model(from, bytes); });
  on(kMeasured, [this](int, Bytes) {
    const std::lock_guard lock(mutex_);
    measured_ = true;
    changed_.notify_all();
  });
  on(kAskReplica, [this](int from, Bytes) { send_replica(from); });
  on(kReplica, [this](int from, Bytes bytes) {
    auto replica = from_bytes<std::vector<float>>(bytes, "a replica");
    const std::lock_guard lock(mutex_);
    gathered_[static_cast<std::size_t>(from)] = std::move(replica);
    ++gathered_count_;
    changed_.notify_all();
  });
  on(kAskRows, [this](int from, Bytes bytes) {
    send_rows(from, from_bytes<std::vector<Index>>(bytes, "places of rows"));
  });
  on(kRows, [this](int from, Bytes bytes) {
    const auto rows = from_bytes<std::vector<float>>(bytes, "rows");
    const std::lock_guard lock(mutex_);
    rows_->take(from, rows);
    ++rows_gathered_;
    changed_.notify_all();
  });
  on(kTrace, [this](int from, Bytes bytes) {
    auto lines =
        from_bytes<std::vector<TraceLine>>(bytes, fmt::format("the trace of rank {}", from));
    const std::lock_guard lock(mutex_);
    std::ranges::move(lines, std::back_inserter(lines_));
    ++traces_;
    changed_.notify_all();
  });
  if (rank_ != 0) return;
  started_ = true;
  state_.accuracy = referee_.best_accuracy(0, 0).value_or(std::nan(""));
  announce();
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
          "where messages take so long, raise --peer-timeout");
    }
  }
}

void RankClient::begin(Worker& worker) {
  {
    std::unique_lock lock(mutex_);
    await(lock, "rank 0 to begin", peer_timeout_, [&] { return started_; });
  }
  if (!synchronous()) pool_.emplace(worker.serve<Pool>("samples"));
}

std::uint64_t RankClient::draw(std::uint64_t count) {
  return pool_->call(count, {}, {}, Traffic::control);
}

// Begins a point of a synchronous algorithm; the answer is the same on all ranks.
bool RankClient::stops_here(std::unique_lock<std::mutex>& lock) {
  if (halting_ && state_.stop == 0) {
    await(lock, "rank 0 to say where all stop", peer_timeout_,
          [&] { return stop_point_.has_value(); });
  }
  const std::uint64_t point = points_++;
  return state_.stop != 0 || (stop_point_ && point >= *stop_point_);
}

// On the control thread of rank 0.
void RankClient::on_stand(std::uint64_t points) {
  std::unique_lock lock(mutex_);
  furthest_ = std::max(furthest_, points);
  const bool all = ++stands_ == size_;
  lock.unlock();
  if (all) to_all(kStopPoint, to_bytes(furthest_));
}

LoopDecision RankClient::running(Worker& worker) {
  std::unique_lock lock(mutex_);
  if (synchronous()) return {.yes = !stops_here(lock), .samples = stated_samples_};
  const std::uint64_t since = worker.samples() - own_samples_at_state_;
  return {.yes = state_.stop == 0,
          .samples = state_.samples + since * static_cast<std::uint64_t>(size_)};
}

void RankClient::end_budget() {
  const std::lock_guard lock(mutex_);
  budget_ended_ = true;
}

void RankClient::completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) {
  trace_batch(worker, samples);
  bool tell = !synchronous();
  {
    const std::lock_guard lock(mutex_);
    const Seconds now = worker.now();
    pending_.add_step(samples, loss, now, started);
    own_samples_ = worker.samples();
    if (rules_.plan.record_steps) {
      events_.push_back(step_event(worker, own_steps_, samples, loss, now, started));
    }
    ++own_steps_;
    tell = tell || (!std::isfinite(loss) && !std::exchange(diverged_, true));
  }
  if (tell) report(worker, Report::step);
}

// The report that says so is the next one. Rank 0 adds up what reports say, modulo 2^64.
void RankClient::discarded(Worker& worker, std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  pending_.samples -= samples;
  own_samples_ = worker.samples();
}

void RankClient::updated(Worker&, bool counts_for_run) {
  if (!counts_for_run) return;
  const std::lock_guard lock(mutex_);
  ++pending_.updates;
}

// --- reports -----------------------------------------------------------------------------------

void RankClient::to_all(int message, std::span<const std::byte> bytes) {
  for (int to = 0; to < size_; ++to) control_.send(to, kind(message), bytes);
}

void RankClient::report(Worker& worker, Report what) {
  nlohmann::json extra = nlohmann::json::object();
  Referee::Counters counters;
  {
    const std::lock_guard lock(mutex_);
    counters = std::exchange(pending_, {});
    counters.last = what == Report::last;
    counters.budget_ended = budget_ended_;
    if (what == Report::evaluation) ++last_evaluation_;
    counters.evaluation = last_evaluation_;
    counters.running_calls = worker.running_calls();
    counters.worker_samples = worker.samples();
    counters.worker_updates = worker.updates();
    counters.worker_lookups = worker.lookup_counts();
    counters.worker_stages = worker.stage_times();
    counters.breakdown = worker.endpoint().account();
    if (!events_.empty()) extra["events"] = std::exchange(events_, nlohmann::json::array());
    if (!histograms_.empty()) extra["histograms"] = std::exchange(histograms_, {});
    if (!warnings_.empty()) extra["warnings"] = std::exchange(warnings_, {});
  }
  const auto bytes = to_bytes(CountersAndExtra{
      counters, extra.empty() ? std::vector<std::uint8_t>() : nlohmann::json::to_cbor(extra)});
  if (rank_ == 0) {
    absorb(0, bytes);
  } else {
    control_.send(0, kind(kReport), bytes);
  }
}

void RankClient::absorb(int from, std::span<const std::byte> bytes) {
  const auto [counters, extra] =
      from_bytes<CountersAndExtra>(bytes, fmt::format("the report of rank {}", from));
  referee_.absorb(from, counters);
  if (!extra.empty()) referee_.absorb(nlohmann::json::from_cbor(extra));
  bool due = false, stop = false;
  {
    const std::lock_guard lock(mutex_);
    reports_[static_cast<std::size_t>(from)] = {counters.evaluation, counters.running_calls};
    ended_ += counters.last;
    stop = referee_.stopped() && !std::exchange(stop_told_, true);
    due = !synchronous() && state_.due == 0 && referee_.due(Seconds(counters.time_s));
    if (due) state_.due = ++evaluations_;
    changed_.notify_all();
  }
  if (stop && synchronous()) to_all(kHalt, {});
  if (due || (stop && !synchronous())) announce();
}

// Rank 0 tells all what it has decided.
void RankClient::announce() {
  State state;
  {
    const std::lock_guard lock(mutex_);
    state_.stop = referee_.stopped().has_value();
    state_.samples = referee_.progress().samples_count;
    state = state_;
    take(state);
  }
  for (int to = 1; to < size_; ++to) control_.send(to, kind(kState), to_bytes(state));
}

// Mutex held.
void RankClient::take(const State& state) {
  state_ = state;
  own_samples_at_state_ = own_samples_;
  accuracies_.add(state.measured, state.accuracy);
  changed_.notify_all();
}

void RankClient::end(Worker& worker) {
  report(worker, Report::last);
  if (rank_ == 0) referee_.observe(worker);
}

void RankClient::await_reports() {
  if (rank_ != 0) return;
  std::unique_lock lock(mutex_);
  await(lock, "the last reports of all ranks", peer_timeout_, [&] { return ended_ == size_; });
  referee_.sort_events();
}

void RankClient::gather(Trace& trace) {
  if (rank_ >= size_) return;  // it runs services, and no worker
  if (rank_ != 0) {
    std::vector<TraceLine> lines;
    for (const TraceLine* line : trace.lines()) lines.push_back(*line);
    return control_.send(0, kind(kTrace), to_bytes(lines));
  }
  std::unique_lock lock(mutex_);
  await(lock, "the traces of all ranks", peer_timeout_, [&] { return traces_ == size_ - 1; });
  for (TraceLine& line : lines_) trace.add(std::move(line));
  lines_.clear();
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
