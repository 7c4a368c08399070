#include "training/views.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {

namespace {

constexpr Seconds kNever(std::numeric_limits<double>::infinity());
// Times at which a run that restarts looks whether all workers are back. Workers that are lost more
// often than this are never there together.
constexpr int kMostLooks = 100'000;

}  // namespace

Views::Views(const Scenario& scenario, int workers, const TrainOptions& options)
    : scenario_(scenario),
      workers_(workers),
      on_loss_(options.on_loss),
      restart_time_(options.restart_time) {
  if (on_loss_ != OnLoss::restart) view_ = alive(Seconds(0));
  if (!view_.empty()) return;
  view_.resize(at(workers_));
  std::iota(view_.begin(), view_.end(), 0);
}

std::vector<int> Views::alive(Seconds time) const {
  std::vector<int> workers;
  for (int worker = 0; worker < workers_; ++worker) {
    const std::optional<Lost> lost = scenario_.lost(worker, time);
    if (!lost || lost->at > time) workers.push_back(worker);
  }
  return workers;
}

Seconds Views::return_of(int worker, Seconds time) const {
  const std::optional<Lost> lost = scenario_.lost(worker, time);
  if (!lost || lost->at > time) return time;
  return lost->returns;
}

Seconds Views::next_return() const {
  Seconds first = kNever;
  for (int worker = 0; worker < workers_; ++worker) {
    if (std::ranges::find(view_, worker) != view_.end()) continue;
    first = std::min(first, return_of(worker, time_));
  }
  return first;
}

void Views::resume(std::vector<int> view, Seconds time) {
  HETSGD_CHECK(!view.empty());
  view_ = std::move(view);
  time_ = time;
}

std::vector<int> Views::update(Seconds time, const std::vector<int>& lost) {
  std::vector<int> before = std::exchange(view_, {});
  std::erase_if(before, [&](int worker) { return std::ranges::find(lost, worker) != lost.end(); });
  const std::vector<int> living = alive(time);
  std::ranges::set_union(living, before, std::back_inserter(view_));
  time_ = time;
  std::vector<int> joined;
  std::ranges::set_difference(living, before, std::back_inserter(joined));
  return joined;
}

bool Views::restarts(const std::vector<int>& lost, Seconds time) const {
  if (on_loss_ == OnLoss::restart && !lost.empty()) return true;
  const auto among = [](const std::vector<int>& workers, int worker) {
    return std::ranges::find(workers, worker) != workers.end();
  };
  const std::vector<int> living = alive(time);
  return std::ranges::none_of(
      view_, [&](int worker) { return among(living, worker) && !among(lost, worker); });
}

Seconds Views::goes_on_at(Seconds time) const {
  if (on_loss_ != OnLoss::restart) {
    if (!alive(time).empty()) return time;
    Seconds first = kNever;
    for (int worker = 0; worker < workers_; ++worker) {
      first = std::min(first, return_of(worker, time));
    }
    if (first < kNever) return first;
    throw with_hint(
        runtime_failure("all workers were lost at {:.6g} s, and none returns", time.count()),
        "--straggler 'kind=return,...' brings a worker back");
  }
  // While the run waits for one worker another may be lost, and while it restarts, too.
  Seconds now = time;
  for (int look = 0; look < kMostLooks; ++look) {
    Seconds all = now;
    for (int worker = 0; worker < workers_; ++worker) {
      all = std::max(all, return_of(worker, now));
      if (all < kNever) continue;
      throw with_hint(runtime_failure("worker {} was lost and never returns", worker),
                      "--on-loss continue goes on without it");
    }
    const bool live = all == now;
    now = live ? now + restart_time_ : all;
    if (live && static_cast<int>(alive(now).size()) == workers_) return now;
  }
  throw with_hint(runtime_failure("from {:.6g} s to {:.6g} s there was no time at which all {} "
                                  "workers lived",
                                  time.count(), now.count(), workers_),
                  "workers are lost too often for --on-loss restart; use fewer of them, or "
                  "--on-loss continue");
}

void check_losses(const Scenario& scenario, const TrainOptions& options) {
  if (!scenario.has_failures()) return;
  if (cluster_kind(options.cluster).join && options.orphans == Orphans::share) {
    refuse("--orphans", "share with --cluster mpi", "wait",
           "each process has the rows of its own shard alone");
  }
  if (options.tables.sharded && options.on_loss == OnLoss::go_on) {
    refuse("--on-loss", "continue with --tables sharded", "restart",
           "the rows of a lost worker are lost with it");
  }
}

}  // namespace hetsgd
