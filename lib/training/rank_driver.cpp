#include "training/rank_driver.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

namespace hetsgd {

namespace {

// Kinds of control messages.
enum Message : int { kReport = 100, kState, kModel, kMeasured, kAskReplica, kReplica };

// What stands before the numbers of a kModel message.
struct ModelHeader {
  double time_s = 0;
  std::int32_t due = 0;
  std::int32_t reserved = 0;
};

template <class T>
T unpack(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  HETSGD_CHECK_GE(bytes.size(), sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <class T>
std::span<const std::byte> pack(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::vector<float> numbers(std::span<const std::byte> bytes) {
  std::vector<float> all(bytes.size() / sizeof(float));
  std::memcpy(all.data(), bytes.data(), all.size() * sizeof(float));
  return all;
}

constexpr std::chrono::seconds kPatience{60};

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

RankDriver::RankDriver(Control& control, Driver& driver, const DriverOptions& options)
    : control_(control),
      driver_(driver),
      options_(options),
      rank_(control.rank()),
      size_(control.size()),
      next_evaluation_(options.evaluate_every),
      reports_(static_cast<std::size_t>(control.size())),
      gathered_(static_cast<std::size_t>(control.size())) {
  using Bytes = std::span<const std::byte>;
  control_.on_message(kReport, [this](int from, Bytes bytes) { absorb(from, bytes); });
  control_.on_message(kState, [this](int, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    take(unpack<State>(bytes));
  });
  control_.on_message(kModel, [this](int from, Bytes bytes) { on_model(from, bytes); });
  control_.on_message(kMeasured, [this](int, Bytes) {
    const std::lock_guard lock(mutex_);
    measured_ = true;
    changed_.notify_all();
  });
  control_.on_message(kAskReplica, [this](int from, Bytes) { send_replica(from); });
  control_.on_message(kReplica, [this](int from, Bytes bytes) {
    std::vector<float> replica = numbers(bytes);
    const std::lock_guard lock(mutex_);
    gathered_[static_cast<std::size_t>(from)] = std::move(replica);
    ++gathered_count_;
    changed_.notify_all();
  });
}

template <class Ready>
void RankDriver::await(std::unique_lock<std::mutex>& lock, const char* what, Ready ready) {
  if (!changed_.wait_for(lock, kPatience, ready)) {
    throw runtime_failure("rank {}: waited {} s for {}", rank_, kPatience.count(), what);
  }
}

void RankDriver::begin(Worker& worker) {
  if (!options_.synchronous) pool_.emplace(worker.serve<Pool>("samples"));
  const std::lock_guard lock(mutex_);
  if (const auto accuracy = driver_.best_accuracy(0, 0)) accuracies_.emplace_back(0, *accuracy);
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
    control_.send(0, kReport, bytes);
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
  for (int to = 1; to < size_; ++to) control_.send(to, kState, pack(state));
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
  std::unique_lock lock(mutex_);
  await(lock, "the last reports of all ranks", [&] { return ended_ == size_; });
}

// --- evaluation --------------------------------------------------------------------------------

void RankDriver::evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                               const std::function<std::span<const float>()>& model) {
  if (!options_.synchronous) return evaluate_alone(worker, model);
  std::uint64_t n = samples.value_or(worker.samples());
  if (!samples && size_ > 1) {
    std::int64_t sum = static_cast<std::int64_t>(n);
    worker.comm().all_reduce(std::span(&sum, 1));
    n = static_cast<std::uint64_t>(sum);
  }
  double now_s = worker.now().count();
  if (options_.max_time.count() > 0 && size_ > 1) {
    worker.comm().all_reduce(std::span(&now_s, 1), ReduceOp::max);
  }
  const bool used_up = driver_.budget_used_up(Seconds(now_s), n, budget_ended_);
  bool due = used_up;
  {
    const std::lock_guard lock(mutex_);
    stated_samples_ = n;
    due = due || n >= next_evaluation_;
    if (due) next_evaluation_ = (n / options_.evaluate_every + 1) * options_.evaluate_every;
  }
  if (due) evaluate_together(worker, n, used_up, model);
}

void RankDriver::evaluate_together(Worker& worker, std::uint64_t samples, bool used_up,
                                   const std::function<std::span<const float>()>& model) {
  report(worker, false);
  worker.node().fence_together([&] {  // rank 0
    std::unique_lock lock(mutex_);
    await(lock, "the reports of all ranks", [&] {
      return std::all_of(reports_.begin(), reports_.end(),
                         [&](std::uint64_t count) { return count >= reports_sent_; });
    });
    lock.unlock();
    measure(worker.now(), samples, used_up, model());
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

// Rank 0, with the world stopped.
void RankDriver::measure(Seconds time, std::uint64_t samples, bool used_up,
                         std::span<const float> model) {
  const CurvePoint point = driver_.evaluate(time, samples, used_up, model);
  const std::lock_guard lock(mutex_);
  state_.stop = driver_.stopped().has_value();
  state_.due = 0;
  state_.samples = state_.measured = samples;
  state_.accuracy = point.p1.value_or(point.accuracy.value_or(std::nan("")));
}

void RankDriver::evaluate_alone(Worker& worker,
                                const std::function<std::span<const float>()>& model) {
  const auto due = [&] {
    const std::lock_guard lock(mutex_);
    return state_.stop == 0 ? state_.due : 0;
  };
  if (due() == 0) return;
  worker.node().fence([&] {
    const std::int32_t number = due();  // somebody else may have been first
    if (number == 0) return;
    const std::span<const float> result = model();
    if (rank_ == 0) {
      measure_alone(worker.now(), result);
      return;
    }
    const ModelHeader header{.time_s = worker.now().count(), .due = number};
    std::vector<std::byte> bytes(sizeof header + result.size_bytes());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, result.data(), result.size_bytes());
    std::unique_lock lock(mutex_);
    measured_ = false;
    lock.unlock();
    control_.send(0, kModel, bytes);
    lock.lock();
    await(lock, "rank 0 to measure a model", [&] { return measured_; });
  });
}

void RankDriver::measure_alone(Seconds time, std::span<const float> model) {
  const std::uint64_t samples = driver_.progress().samples_count;
  measure(time, samples, driver_.budget_used_up(time, samples, false), model);
  announce();
}

// On the control thread of rank 0. Measuring takes long, and that thread carries the signs of life:
// it has a thread of its own.
void RankDriver::on_model(int from, std::span<const std::byte> bytes) {
  const auto header = unpack<ModelHeader>(bytes);
  std::vector<float> model = numbers(bytes.subspan(sizeof header));
  bool current = false;
  {
    const std::lock_guard lock(mutex_);
    current = state_.due == header.due;
  }
  if (evaluation_.joinable()) evaluation_.join();
  evaluation_ = std::jthread([this, from, header, current, model = std::move(model)] {
    if (current) measure_alone(Seconds(header.time_s), model);
    control_.send(from, kMeasured, {});
  });
}

void RankDriver::publish(int, Device& device, std::span<const float> replica) {
  const std::lock_guard lock(mutex_);
  replica_ = {.device = &device, .replica = replica, .copy = {}};
}

// On the control thread, with the world stopped: the replica is whole.
void RankDriver::send_replica(int to) {
  std::span<const float> replica;
  {
    const std::lock_guard lock(mutex_);
    replica = replica_.on_host();
  }
  control_.send(to, kReplica, std::as_bytes(replica));
}

std::span<const float> RankDriver::mean_of_published() {
  std::unique_lock lock(mutex_);
  gathered_count_ = 0;
  lock.unlock();
  for (int to = 0; to < size_; ++to) control_.send(to, kAskReplica, {});
  lock.lock();
  await(lock, "the replicas of all ranks", [&] { return gathered_count_ == size_; });
  mean_.resize(model().parameters());
  std::vector<std::span<const float>> replicas(gathered_.begin(), gathered_.end());
  mean_of(replicas, mean_);
  return mean_;
}

std::optional<double> RankDriver::best_accuracy(std::uint64_t from, std::uint64_t to) const {
  const std::lock_guard lock(mutex_);
  std::optional<double> best;
  for (const auto& [samples, accuracy] : accuracies_) {
    if (samples < from || samples > to || std::isnan(accuracy)) continue;
    if (!best || accuracy > *best) best = accuracy;
  }
  return best;
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
