// RankClient's evaluations, by all ranks together or by one of them with the world stopped.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/threads.hpp"
#include "training/rank_client.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

void RankClient::evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                               const std::function<std::span<const float>()>& model) {
  if (!synchronous()) return evaluate_alone(worker, model);
  {
    std::unique_lock lock(mutex_);
    if (stops_here(lock)) return;
  }
  std::uint64_t n = samples.value_or(worker.samples());
  if (!samples && size_ > 1) {
    std::int64_t sum = static_cast<std::int64_t>(n);
    worker.comm().all_reduce(std::span(&sum, 1));
    n = static_cast<std::uint64_t>(sum);
  }
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
  worker.endpoint().while_paused_together([&] {      // rank 0
    std::unique_lock lock(mutex_);
    await(lock, "the reports of all ranks", peer_timeout_, [&] {
      return std::ranges::all_of(
          reports_, [&](const Reported& rank) { return rank.evaluation >= last_evaluation_; });
    });
    for (const Reported& rank : reports_) {
      if (rank.running_calls == worker.running_calls()) continue;
      throw unequal_calls(worker.running_calls(), rank.running_calls,
                          fmt::format("evaluation {}", last_evaluation_));
    }
    lock.unlock();
    const Referee::Point point = referee_.evaluation_point(now, samples);
    PreparedModel prepared;
    if (point.due) {
      prepared = prepare(model);
      prepared.rows = gather_rows();
    }
    measure(worker.now(), point, prepared);
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

// Runs on rank 0, with the world stopped. If the point is not due, the reports have ended the run.
void RankClient::measure(Seconds time, const Referee::Point& point, const PreparedModel& model) {
  std::optional<CurvePoint> measured;
  if (point.due) measured = referee_.measure(time, point.samples, model);
  const std::lock_guard lock(mutex_);
  state_.stop = referee_.stopped().has_value();
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
    std::unique_lock lock(mutex_);
    measured_ = false;
    lock.unlock();
    send(0, kModel,
         {.time_s = worker.now().count(),
          .prepare_s = result.host_s,
          .due = number,
          .parameters = result.parameters});
    lock.lock();
    // There is no limit, because a measurement may take long and the loss of rank 0 fails the run.
    await(lock, "rank 0 to measure a model", Seconds::max(), [&] { return measured_; });
  });
}

void RankClient::measure_alone(Seconds time, const PreparedModel& model) {
  measure(time, referee_.evaluation_point(time, {}), model);
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
          if (current) {
            prepared.rows = gather_rows();
            measure_alone(Seconds(model.time_s), prepared);
          }
        } catch (...) {
          return cluster_.abort(std::current_exception());
        }
        send(from, kMeasured);
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
  for (int rank = 0; rank < size_; ++rank) send(rank, message, question_for(rank));
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

}  // namespace hetsgd
