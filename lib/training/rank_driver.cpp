#include "training/rank_driver.hpp"

#include <cmath>

#include "core/error.hpp"
#include "training/rank_messages.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

namespace {

// A message of an earlier run that comes late, or of the next one that comes early, has a kind of
// its own.
std::atomic<int> drivers_made{0};

// A failed run is noticed so late at most by who waits for a message.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

// The cursor of the shared pool.
class RankDriver::Pool final : public Service<std::uint64_t, std::uint64_t> {
 public:
  void handle(int, const std::uint64_t& count, std::span<const float>,
              Responder<std::uint64_t> reply) override {
    reply(cursor_);
    cursor_ += count;
  }

 private:
  std::uint64_t cursor_ = 0;
};

// Lets messages in while the driver lives; the handlers stay with the control channel.
class RankDriver::Doorkeeper {
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
void RankDriver::on(int message, Handle handle) {
  control_.on_message(kind(message),
                      [handle, door = doorkeeper_](int from, std::span<const std::byte> bytes) {
                        door->enter([&] { handle(from, bytes); });
                      });
}

RankDriver::RankDriver(Control& control, Driver& driver, const DriverOptions& options,
                       Cluster& cluster, Seconds peer_timeout, double initial_accuracy)
    : control_(control),
      driver_(driver),
      options_(options),
      cluster_(cluster),
      peer_timeout_(peer_timeout),
      rank_(control.rank()),
      size_(options.plan.workers),
      first_kind_(kMessages * drivers_made++),
      doorkeeper_(std::make_shared<Doorkeeper>()),
      next_evaluation_(options.evaluate_every),
      reports_(static_cast<std::size_t>(size_)),
      gathered_(static_cast<std::size_t>(size_)) {
  if (!std::isnan(initial_accuracy)) accuracies_.emplace_back(0, initial_accuracy);
  using Bytes = std::span<const std::byte>;
  on(kReport, [this](int from, Bytes bytes) { absorb(from, bytes); });
  on(kState, [this](int, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    take(unpack<State>(bytes));
  });
  on(kModel, [this](int from, Bytes bytes) { on_model(from, bytes); });
  on(kMeasured, [this](int, Bytes) {
    const std::lock_guard lock(mutex_);
    measured_ = true;
    changed_.notify_all();
  });
  on(kAskReplica, [this](int from, Bytes) { send_replica(from); });
  on(kReplica, [this](int from, Bytes bytes) {
    std::vector<float> replica = numbers(bytes);
    const std::lock_guard lock(mutex_);
    gathered_[static_cast<std::size_t>(from)] = std::move(replica);
    ++gathered_count_;
    changed_.notify_all();
  });
}

RankDriver::~RankDriver() { doorkeeper_->close(); }

void RankDriver::await(std::unique_lock<std::mutex>& lock, const char* what, Seconds limit,
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

void RankDriver::begin(Worker& worker) {
  if (!options_.synchronous) pool_.emplace(worker.serve<Pool>("samples"));
}

std::uint64_t RankDriver::draw(std::uint64_t count) {
  return pool_->call(count, {}, {}, Traffic::control);
}

GoOn RankDriver::running(Worker& worker) {
  const std::lock_guard lock(mutex_);
  if (options_.synchronous) return {.yes = state_.stop == 0, .samples = stated_samples_};
  const std::uint64_t since = worker.samples() - own_samples_at_state_;
  return {.yes = state_.stop == 0,
          .samples = state_.samples + since * static_cast<std::uint64_t>(size_)};
}

void RankDriver::completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) {
  {
    const std::lock_guard lock(mutex_);
    const Seconds now = worker.now();
    pending_.add_step(samples, loss, now, started);
    own_samples_ = worker.samples();
    if (options_.plan.record_steps) {
      events_.push_back(step_event(worker, own_steps_, samples, loss, now, started));
    }
    ++own_steps_;
  }
  if (!options_.synchronous) report(worker, false);
}

void RankDriver::updated(Worker&, bool counts_for_run) {
  if (!counts_for_run) return;
  const std::lock_guard lock(mutex_);
  ++pending_.updates;
}

// --- reports -----------------------------------------------------------------------------------

void RankDriver::report(Worker& worker, bool last) {
  nlohmann::json extra = nlohmann::json::object();
  Driver::Counters counters;
  {
    const std::lock_guard lock(mutex_);
    counters = std::exchange(pending_, {});
    counters.last = last;
    counters.worker_samples = worker.samples();
    counters.worker_updates = worker.updates();
    counters.ledger = worker.node().ledger();
    if (!events_.empty()) extra["events"] = std::exchange(events_, nlohmann::json::array());
    if (!histograms_.empty()) extra["histograms"] = std::exchange(histograms_, {});
    if (!warnings_.empty()) extra["warnings"] = std::exchange(warnings_, {});
    ++reports_sent_;
  }
  std::vector<std::byte> bytes(pack(counters).begin(), pack(counters).end());
  if (!extra.empty()) {
    const auto cbor = nlohmann::json::to_cbor(extra);
    const auto* begin = reinterpret_cast<const std::byte*>(cbor.data());
    bytes.insert(bytes.end(), begin, begin + cbor.size());
  }
  if (rank_ == 0) {
    absorb(0, bytes);
  } else {
    control_.send(0, kind(kReport), bytes);
  }
}

void RankDriver::absorb(int from, std::span<const std::byte> bytes) {
  const auto counters = unpack<Driver::Counters>(bytes);
  driver_.absorb(from, counters);
  if (const auto rest = bytes.subspan(sizeof counters); !rest.empty()) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(rest.data());
    driver_.absorb(nlohmann::json::from_cbor(data, data + rest.size()));
  }
  int due = 0;
  {
    const std::lock_guard lock(mutex_);
    ++reports_[static_cast<std::size_t>(from)];
    ended_ += counters.last;
    if (!options_.synchronous && state_.due == 0 && driver_.due(Seconds(counters.time_s))) {
      due = state_.due = ++evaluations_;
    }
    changed_.notify_all();
  }
  if (due != 0) announce();
}

// Rank 0 tells all what it has decided.
void RankDriver::announce() {
  State state;
  {
    const std::lock_guard lock(mutex_);
    state_.stop = driver_.stopped().has_value();
    state_.samples = driver_.progress().samples_count;
    state = state_;
    take(state);
  }
  for (int to = 1; to < size_; ++to) control_.send(to, kind(kState), pack(state));
}

// Mutex held.
void RankDriver::take(const State& state) {
  state_ = state;
  own_samples_at_state_ = own_samples_;
  if (state.measured > 0 && (accuracies_.empty() || accuracies_.back().first < state.measured)) {
    accuracies_.emplace_back(state.measured, state.accuracy);
  }
  changed_.notify_all();
}

void RankDriver::end(Worker& worker) {
  report(worker, true);
  if (rank_ == 0) driver_.finished(worker);
}

void RankDriver::await_reports() {
  if (rank_ != 0) return;
  std::unique_lock lock(mutex_);
  await(lock, "the last reports of all ranks", peer_timeout_, [&] { return ended_ == size_; });
  driver_.sort_events();
}

// --- what the result shows -----------------------------------------------------------------------

void RankDriver::record(Seconds time, nlohmann::json event) {
  event["time_s"] = time.count();
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

void RankDriver::observe(const std::string& histogram, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  ++histograms_[histogram][value];
}

void RankDriver::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(text);
}

}  // namespace hetsgd
