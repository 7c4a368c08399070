#include "cluster/straggler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cluster/straggler_kinds.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// A step that crosses more phases than this goes on at their mean rate: still a pure function, and
// no specification can make it run for ever.
constexpr int kMostPhases = 100'000;
// Downtimes among which the next one is sought that the others notice. Where so many are too short,
// fewer than one in 10^4 is long enough, and the run is taken to have none.
constexpr int kMostDowntimes = 100'000;

// Limit of the product of a worker's factors: beyond it, products with the worker's costs would
// leave the range of doubles.
constexpr double kLargestProduct = 1e12;

// All that slows one worker, by its number in the run.
struct WorkerEffects {
  double factor = 1;
  double slowdown = 1;  // over a long time, at most: the factors of all kinds
  std::vector<const StraggleDelay*> delays;
  std::vector<const StraggleJitter*> jitters;
  std::vector<const SlowPhases*> slow;
  std::vector<StandstillInterval> pauses;
  std::vector<Downtime> fails;
  std::vector<double> returns_s;
  std::vector<const Downtimes*> churns;
  double detect_s = 0;
};

// fn(downtime) for the first downtime of each kind of failure that has not ended at time_s.
template <class Fn>
void for_each_downtime(const WorkerEffects& effects, int worker, double time_s, const Fn& fn) {
  for (const Downtime& down : effects.fails) {
    if (down.end_s > time_s) fn(down);
  }
  for (const Downtimes* const churn : effects.churns) fn((*churn)(worker, time_s));
}

// A stretch of clock time that begins at `start_s`. The elapsed time is summed on its own: start +
// elapsed - start would lose the last bits of a short step late in a run.
class Interval {
 public:
  Interval(const WorkerEffects& effects, int worker, double start_s)
      : effects_(effects), worker_(worker), now_s_(start_s) {}

  // Passes the time that `work_s` of undisturbed progress takes; slow phases count only if
  // `slowed`.
  void advance(double work_s, bool slowed) {
    for (int phases = 0; work_s > 0; ++phases) {
      Phase all{.until_s = std::numeric_limits<double>::infinity()};
      if (skip_pause(all.until_s) || skip_stop(phases, all.until_s)) continue;
      if (slowed) add_slow(phases, all);
      if (work_s * all.factor <= all.until_s - now_s_) {
        move_to(now_s_ + work_s * all.factor, work_s * all.factor);
        return;
      }
      // At clock values where doubles are coarser than a phase, time still has to move.
      const double next_s = std::max(all.until_s, std::nextafter(now_s_, HUGE_VAL));
      work_s -= (next_s - now_s_) / all.factor;
      move_to(next_s, next_s - now_s_);
    }
  }

  double elapsed_s() const { return elapsed_s_; }

 private:
  // Goes to the end of a pause that holds now (true); else bounds `until_s` by the next one.
  bool skip_pause(double& until_s) {
    for (const StandstillInterval& pause : effects_.pauses) {
      if (now_s_ < pause.begin_s) {
        until_s = std::min(until_s, pause.begin_s);
      } else if (now_s_ < pause.end_s) {
        move_to(pause.end_s, pause.end_s - now_s_);
        return true;
      }
    }
    return false;
  }

  // The same for a failure that is but a pause.
  bool skip_stop(int phases, double& until_s) {
    bool skipped = false;
    if (phases >= kMostPhases) return skipped;
    for_each_downtime(effects_, worker_, now_s_, [&](const Downtime& down) {
      if (skipped || down.mode != FailureMode::stopped || down.is_noticed(effects_.detect_s)) {
        return;
      }
      skipped = now_s_ >= down.begin_s;
      if (skipped) move_to(down.end_s, down.end_s - now_s_);
      until_s = std::min(until_s, down.begin_s);
    });
    return skipped;
  }

  void add_slow(int phases, Phase& all) const {
    for (const SlowPhases* source : effects_.slow) {
      if (phases >= kMostPhases) {
        all.factor /= source->mean_rate;
        continue;
      }
      const Phase phase = source->at(worker_, now_s_);
      all.factor *= phase.factor;
      all.until_s = std::min(all.until_s, phase.until_s);
    }
  }

  void move_to(double time_s, double length_s) {
    now_s_ = time_s;
    elapsed_s_ += length_s;
  }

  const WorkerEffects& effects_;
  int worker_;
  double now_s_;
  double elapsed_s_ = 0;
};

// Every straggler draws from a seed of its own, so that two equal specifications are independent.
std::uint64_t seed_of(std::uint64_t seed, std::size_t number) {
  const RandomBlock block =
      random_block(seed, Purpose::straggler, static_cast<std::uint32_t>(number), 0xFFFFFFFFU, 0);
  return block[0] | (static_cast<std::uint64_t>(block[1]) << 32);
}

// A failure lasts until the first return after it. Each return must follow one.
void end_failures(WorkerEffects& effects, int worker) {
  for (const double returns_s : effects.returns_s) {
    bool is_used = false;
    for (Downtime& down : effects.fails) {
      if (down.begin_s >= returns_s) continue;
      down.end_s = std::min(down.end_s, returns_s);
      is_used = true;
    }
    if (is_used) continue;
    refuse("--straggler", fmt::format("kind=return of worker {} at {} s", worker, returns_s),
           "a kind=fail of the same worker before it");
  }
}

}  // namespace

std::string_view to_string(FailureMode mode) {
  switch (mode) {
    case FailureMode::killed:
      return "killed";
    case FailureMode::stopped:
      return "stopped";
    case FailureMode::cut_off:
      return "cut_off";
  }
  return "";
}

struct Scenario::Impl {
  std::vector<std::string> specifications;
  std::vector<Straggler> stragglers;
  std::vector<WorkerEffects> ranks;
};

Scenario::Scenario(const std::vector<std::string>& specifications, int workers, std::uint64_t seed,
                   Seconds detect) {
  HETSGD_CHECK_LT(0, workers);
  const auto impl = std::make_shared<Impl>();
  impl->ranks.resize(at(workers));
  impl->stragglers.reserve(specifications.size());  // the ranks' effects refer to them
  for (std::size_t i = 0; i < specifications.size(); ++i) {
    const Straggler& straggler =
        impl->stragglers.emplace_back(make_straggler(specifications[i], workers, seed_of(seed, i)));
    impl->specifications.push_back(straggler.canonical);
    for (const int worker : straggler.ranks) {
      WorkerEffects& effects = impl->ranks[at(worker)];
      effects.factor *= straggler.factor;
      effects.slowdown *= straggler.factor / (straggler.slow ? straggler.slow->mean_rate : 1);
      effects.slowdown *= straggler.jitter ? straggler.jitter->largest : 1;
      if (!(effects.slowdown <= kLargestProduct)) {
        refuse(fmt::format("--straggler {}", quote(specifications[i])),
               fmt::format("factors of worker {} that multiply to {:g}", worker, effects.slowdown),
               fmt::format("at most {:g}", kLargestProduct));
      }
      if (straggler.delay) effects.delays.push_back(&straggler.delay);
      if (straggler.jitter) effects.jitters.push_back(&*straggler.jitter);
      if (straggler.slow) effects.slow.push_back(&*straggler.slow);
      if (straggler.pause) effects.pauses.push_back(*straggler.pause);
      if (straggler.fails) effects.fails.push_back(*straggler.fails);
      if (straggler.returns_at_s) effects.returns_s.push_back(*straggler.returns_at_s);
      if (straggler.churn) effects.churns.push_back(&straggler.churn);
    }
  }
  for (int worker = 0; worker < workers; ++worker) {
    end_failures(impl->ranks[at(worker)], worker);
    impl->ranks[at(worker)].detect_s = detect.count();
  }
  impl_ = impl;
}

Seconds Scenario::stretched(int worker, std::optional<std::uint64_t> iteration, Seconds start,
                            Seconds compute) const {
  HETSGD_CHECK(worker >= 0 && static_cast<std::size_t>(worker) < impl_->ranks.size());
  HETSGD_CHECK(start >= Seconds(0) && std::isfinite(start.count()));
  HETSGD_CHECK(compute >= Seconds(0) && std::isfinite(compute.count()));
  const WorkerEffects& effects = impl_->ranks[at(worker)];
  double delay_s = 0;
  double work_s = compute.count() * effects.factor;
  if (iteration) {
    for (const StraggleDelay* source : effects.delays) delay_s += (*source)(worker, *iteration);
    for (const StraggleJitter* source : effects.jitters) {
      work_s *= source->factor(worker, *iteration);
    }
  }
  const bool may_stand =
      !effects.pauses.empty() || !effects.fails.empty() || !effects.churns.empty();
  if (effects.slow.empty() && !may_stand) return Seconds(work_s + delay_s);
  Interval interval(effects, worker, start.count());
  interval.advance(work_s, true);
  interval.advance(delay_s, false);
  return std::max(Seconds(interval.elapsed_s()), compute);
}

std::optional<Lost> Scenario::lost(int worker, Seconds time) const {
  const WorkerEffects& effects = impl_->ranks[at(worker)];
  std::optional<Downtime> first;
  const auto take = [&](const Downtime& each) {
    if (each.is_noticed(effects.detect_s) && (!first || each.begin_s < first->begin_s)) {
      first = each;
    }
  };
  for (const Downtime& down : effects.fails) {
    if (down.end_s > time.count()) take(down);
  }
  for (const Downtimes* const churn : effects.churns) {
    Downtime down = (*churn)(worker, time.count());
    for (int i = 0; i < kMostDowntimes && !down.is_noticed(effects.detect_s); ++i) {
      down = (*churn)(worker, down.end_s);
    }
    take(down);
  }
  if (!first) return std::nullopt;
  return Lost{Seconds(first->begin_s), Seconds(first->end_s), first->mode};
}

Seconds Scenario::reachable(int worker, Seconds time) const {
  const WorkerEffects& effects = impl_->ranks[at(worker)];
  for (bool is_back = false; !is_back;) {
    is_back = true;
    for_each_downtime(effects, worker, time.count(), [&](const Downtime& down) {
      if (down.begin_s > time.count() || down.is_noticed(effects.detect_s)) return;
      time = std::max(time, Seconds(down.end_s));
      is_back = false;
    });
  }
  return time;
}

bool Scenario::has_failures() const {
  return std::ranges::any_of(impl_->ranks, [](const WorkerEffects& effects) {
    return !effects.fails.empty() || !effects.churns.empty();
  });
}

bool Scenario::has_gaps() const {
  bool any = false;
  for (std::size_t worker = 0; worker < impl_->ranks.size(); ++worker) {
    for_each_downtime(impl_->ranks[worker], static_cast<int>(worker), 0,
                      [&](const Downtime& down) { any |= down.mode != FailureMode::killed; });
  }
  return any;
}

const std::vector<std::string>& Scenario::specifications() const { return impl_->specifications; }

}  // namespace hetsgd
