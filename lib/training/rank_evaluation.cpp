// RankDriver's evaluations: all ranks together, or one of them with the world stopped.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "training/rank_driver.hpp"
#include "training/rank_messages.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

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
    await(lock, "the reports of all ranks", peer_timeout_, [&] {
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
    control_.send(0, kind(kModel), bytes);
    lock.lock();
    // However long it takes: a rank 0 that is lost fails the run.
    await(lock, "rank 0 to measure a model", Seconds::max(), [&] { return measured_; });
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
    try {
      if (current) measure_alone(Seconds(header.time_s), model);
    } catch (...) {
      return cluster_.abort(std::current_exception());
    }
    control_.send(from, kind(kMeasured), {});
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
  control_.send(to, kind(kReplica), std::as_bytes(replica));
}

std::span<const float> RankDriver::mean_of_published() {
  std::unique_lock lock(mutex_);
  gathered_count_ = 0;
  lock.unlock();
  for (int to = 0; to < size_; ++to) control_.send(to, kind(kAskReplica), {});
  lock.lock();
  await(lock, "the replicas of all ranks", peer_timeout_, [&] { return gathered_count_ == size_; });
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

}  // namespace hetsgd
