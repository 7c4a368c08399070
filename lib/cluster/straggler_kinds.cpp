#include "cluster/straggler_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// Shorter phases would only slow the simulation down: a step would cross thousands of them.
constexpr Seconds kShortestPhase = 1us;
constexpr double kLargestFactor = 1e9;
constexpr std::string_view kWorkers = "workers";

OptionRefiner time(OptionSet& set, const std::string& key, Seconds& value, const std::string& help,
                   Seconds least = Seconds(0)) {
  return set.add(key, value, help).unit("s").range(least.count(), kLongestStraggle.count());
}

OptionRefiner slowdown(OptionSet& set, double& value) {
  return set.add("factor", value, "Factor by which computations take longer.")
      .range(1, kLargestFactor)
      .required("3");
}

void at_least(const KeyValues& values, std::string_view key, Seconds value, Seconds least) {
  if (value < least) {
    values.fail(key, fmt::format("a time of at least {}", format_seconds(least)));
  }
}

struct DelayRange {
  Seconds min{0}, max{0};
  double draw(std::uint64_t seed, int rank, std::uint64_t iteration) const {
    return straggler_draws(seed, rank, iteration).uniform(min.count(), max.count());
  }
};

class ConstantKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override { slowdown(set, factor_); }
  void apply(Straggler& straggler, const StragglerContext&) const override {
    straggler.factor = factor_;
  }

 private:
  double factor_ = 1;
};

class JitterKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    set.add("factor", factor_,
            "Largest factor. The factor of a computation is drawn uniformly between 1 and it.")
        .range(1, kLargestFactor)
        .required("1.2");
    set.add("steps", steps_,
            "Successive iterations of a worker with the same factor. A larger value makes its "
            "speed swing more slowly.")
        .range(1, 1e9);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    const auto draw = [seed = context.seed, factor = factor_, steps = steps_](
                          int rank, std::uint64_t iteration) {
      return straggler_draws(seed, rank, iteration / steps).uniform(1, factor);
    };
    straggler.jitter = StraggleJitter{draw, factor_};
  }

 private:
  double factor_ = 1;
  std::uint64_t steps_ = 1;
};

class UniformKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "min", range_.min, "Shortest extra delay of an iteration.");
    time(set, "max", range_.max, "Longest extra delay of an iteration.").required("50ms");
  }
  void check(const KeyValues& values) const override {
    at_least(values, "max", range_.max, range_.min);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.delay = [seed = context.seed, range = range_](int rank, std::uint64_t iteration) {
      return range.draw(seed, rank, iteration);
    };
  }

 private:
  DelayRange range_;
};

class GroupsKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int> workers) override {
    set.add("split", split_,
            "First rank of the second group. The ranks below it are the first group.")
        .range(0, workers ? *workers : std::numeric_limits<double>::infinity())
        .required("4");
    time(set, "min1", first_.min, "Shortest extra delay of an iteration in the first group.");
    time(set, "max1", first_.max, "Longest extra delay of an iteration in the first group.")
        .required("50ms");
    time(set, "min2", second_.min, "Shortest extra delay of an iteration in the second group.");
    time(set, "max2", second_.max, "Longest extra delay of an iteration in the second group.")
        .required("100ms");
  }
  void check(const KeyValues& values) const override {
    at_least(values, "max1", first_.max, first_.min);
    at_least(values, "max2", second_.max, second_.min);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.delay = [seed = context.seed, split = split_, first = first_, second = second_](
                          int rank, std::uint64_t iteration) {
      return (rank < split ? first : second).draw(seed, rank, iteration);
    };
  }

 private:
  int split_ = 0;
  DelayRange first_, second_;
};

class LognormalKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "median", median_, "Median of the extra delay of an iteration.")
        .above(0)
        .required("10ms");
    set.add("sigma", sigma_, "Standard deviation of the delay's logarithm.").range(0, 10);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.delay = [seed = context.seed, mu = std::log(median_.count()), sigma = sigma_](
                          int rank, std::uint64_t iteration) {
      return straggler_draws(seed, rank, iteration).lognormal(mu, sigma);
    };
  }

 private:
  Seconds median_{0};
  double sigma_ = 1;
};

class ParetoKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "scale", scale_,
         "Scale of the distribution. It is subtracted, so that delays start at 0.")
        .required("10ms");
    // Below a shape of 1/2 single draws exceed every scale of time (the smallest uniform is 2^-53).
    set.add("shape", shape_, "Shape of the distribution. A smaller value gives a heavier tail.")
        .range(0.5, 1000);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.delay = [seed = context.seed, scale_s = scale_.count(), shape = shape_](
                          int rank, std::uint64_t iteration) {
      const double drawn = straggler_draws(seed, rank, iteration).pareto(scale_s, shape);
      return std::max(0.0, drawn - scale_s);
    };
  }

 private:
  Seconds scale_{0};
  double shape_ = 2;
};

class PeriodicKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "period", period_, "Time from the start of a slow phase to the start of the next.",
         kShortestPhase)
        .required("10s");
    time(set, "duration", duration_, "Length of the slow phase, with which every period begins.")
        .required("2s");
    slowdown(set, factor_);
  }
  void check(const KeyValues& values) const override {
    if (duration_ > period_) values.fail("duration", "a time no longer than the period");
  }
  void apply(Straggler& straggler, const StragglerContext&) const override {
    straggler.slow = periodic_phases(period_, duration_, factor_);
  }

 private:
  Seconds period_{0}, duration_{0};
  double factor_ = 1;
};

class BurstKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "on", on_, "Mean length of a slow phase.", kShortestPhase).required("1s");
    time(set, "off", off_, "Mean length of a normal phase.", kShortestPhase).required("10s");
    slowdown(set, factor_);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.slow = burst_phases(context.seed, on_, off_, factor_);
  }

 private:
  Seconds on_{0}, off_{0};
  double factor_ = 1;
};

class TraceKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    set.add("file", file_,
            "CSV file with lines rank,iteration,delay_s. The rank * stands for every rank that has "
            "no line of its own.")
        .required("delays.csv");
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.delay = read_delay_trace(file_, context.workers);
  }

 private:
  std::string file_;
};

class PauseKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "at", at_, "Time at which the pause begins.").required("30s");
    time(set, "duration", duration_, "Length of the pause.").required("5s");
  }
  void apply(Straggler& straggler, const StragglerContext&) const override {
    straggler.pause = StandstillInterval{at_.count(), (at_ + duration_).count()};
  }

 private:
  Seconds at_{0}, duration_{0};
};

void add_mode(OptionSet& set, FailureMode& mode) {
  std::vector<std::pair<std::string, FailureMode>> choices;
  for (const FailureMode each : {FailureMode::killed, FailureMode::stopped, FailureMode::cut_off}) {
    choices.emplace_back(to_string(each), each);
  }
  set.add_choice("mode", mode, choices,
                 "What becomes of the worker: killed (its memory is gone), stopped (it stands "
                 "still), cut_off (it computes, and cannot speak).");
}

class FailKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "at", at_, "Time at which the worker is lost.").required("30s");
    add_mode(set, mode_);
  }
  void apply(Straggler& straggler, const StragglerContext&) const override {
    straggler.fails = Downtime{.begin_s = at_.count(), .mode = mode_};
  }

 private:
  Seconds at_{0};
  FailureMode mode_ = FailureMode::killed;
};

class ReturnKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "at", at_, "Time at which the worker returns, after a kind=fail of the same worker.")
        .required("60s");
  }
  void apply(Straggler& straggler, const StragglerContext&) const override {
    straggler.returns_at_s = at_.count();
  }

 private:
  Seconds at_{0};
};

class ChurnKind final : public StragglerKind {
 public:
  void declare(OptionSet& set, std::optional<int>) override {
    time(set, "mtbf", mtbf_, "Mean time from the return of a worker to its next failure.")
        .required("10m");
    time(set, "mttr", mttr_, "Mean time from a failure to the worker's return.").required("30s");
    add_mode(set, mode_);
  }
  void check(const KeyValues& values) const override {
    at_least(values, "mtbf", mtbf_, kShortestLife);
    at_least(values, "mttr", mttr_, kShortestPhase);
  }
  void apply(Straggler& straggler, const StragglerContext& context) const override {
    straggler.churn = churning(context.seed, mtbf_, mttr_, mode_);
  }

 private:
  static constexpr Seconds kShortestLife = 1ms;
  Seconds mtbf_{600}, mttr_{30};
  FailureMode mode_ = FailureMode::killed;
};

template <class Kind>
RegisteredStraggler registered(StragglerInfo info) {
  return {std::move(info), [] { return std::make_unique<Kind>(); }};
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const RegisteredStraggler& each : straggler_kinds()) names.push_back(each.info.name);
  return names;
}

}  // namespace

const std::vector<RegisteredStraggler>& straggler_kinds() {
  static const std::vector<RegisteredStraggler> all{
      registered<ConstantKind>({.name = "constant",
                                .title = "Constant factor",
                                .idea = "Every computation takes longer by a fixed factor.",
                                .example = "kind=constant,worker=3,factor=4"}),
      registered<JitterKind>({.name = "jitter",
                              .title = "Oscillating speed",
                              .idea = "Every computation takes longer by a factor that is drawn "
                                      "anew for each iteration and worker, as where equal GPUs "
                                      "run at clock rates that oscillate.",
                              .example = "kind=jitter,factor=1.2"}),
      registered<UniformKind>({.name = "uniform",
                               .title = "Uniform delays",
                               .idea = "Every iteration takes an extra delay, drawn uniformly "
                                       "between two times. RNA's experiments use 0 to 50 ms.",
                               .example = "kind=uniform,min=0ms,max=50ms"}),
      registered<GroupsKind>({.name = "groups",
                              .title = "Uniform delays of two groups",
                              .idea = "Every iteration takes an extra delay, drawn uniformly from "
                                      "one range on ranks below a split and from another range on "
                                      "the rest. RNA's experiments use it for mixed clusters.",
                              .example = "kind=groups,split=4,max1=50ms,min2=50ms,max2=100ms"}),
      registered<LognormalKind>({.name = "lognormal",
                                 .title = "Log-normal delays",
                                 .idea = "Every iteration takes an extra delay whose logarithm is "
                                         "normally distributed: mostly short, sometimes long.",
                                 .example = "kind=lognormal,median=10ms,sigma=1"}),
      registered<ParetoKind>({.name = "pareto",
                              .title = "Pareto delays",
                              .idea = "Every iteration takes an extra delay from a heavy-tailed "
                                      "distribution: rare delays are very long.",
                              .example = "kind=pareto,scale=10ms,shape=2"}),
      registered<PeriodicKind>({.name = "periodic",
                                .title = "Periodic slow phases",
                                .idea = "Computations are slow during the first part of every "
                                        "period of the clock, as beside a job that comes and goes.",
                                .example = "kind=periodic,period=10s,duration=2s,factor=3"}),
      registered<BurstKind>(
          {.name = "burst",
           .title = "Random slow phases",
           .idea = "Slow and normal phases of exponentially distributed lengths alternate on each "
                   "rank. At time 0 a rank is slow with probability on/(on+off).",
           .example = "kind=burst,on=1s,off=10s,factor=3"}),
      registered<TraceKind>(
          {.name = "trace",
           .title = "Delays from a file",
           .idea =
               "A CSV file with the columns rank,iteration,delay_s gives the extra delay of each "
               "rank (*: all) and iteration. An iteration without a line has no delay, and "
               "after the last iteration the file repeats.",
           .example = "kind=trace,file=delays.csv"}),
      registered<PauseKind>({.name = "pause",
                             .title = "Pause",
                             .idea = "The worker stands still once, for a given time.",
                             .example = "kind=pause,worker=0,at=30s,duration=5s"}),
      registered<FailKind>({.name = "fail",
                            .title = "Failure",
                            .idea = "The worker is lost at a given time, with what it has computed "
                                    "and not yet given to others.",
                            .example = "kind=fail,worker=0,at=30s"}),
      registered<ReturnKind>({.name = "return",
                              .title = "Return",
                              .idea = "A worker that was lost returns at a given time and goes on "
                                      "from the state of the others.",
                              .example = "kind=return,worker=0,at=60s"}),
      registered<ChurnKind>({.name = "churn",
                             .title = "Failures and returns",
                             .idea =
                                 "Workers are lost and return again and again, after times that "
                                 "are exponentially distributed.",
                             .example = "kind=churn,mtbf=10m,mttr=30s"})};
  return all;
}

const RegisteredStraggler& find_straggler_kind(const std::string& name, const std::string& place) {
  const auto kind = std::ranges::find_if(
      straggler_kinds(), [&](const RegisteredStraggler& each) { return each.info.name == name; });
  if (kind != straggler_kinds().end()) return *kind;
  const std::vector<std::string> names = kind_names();
  refuse(place, fmt::format("kind {}", quote(name)), alternatives(names),
         did_you_mean(name, names));
}

Straggler make_straggler(const std::string& specification, int workers, std::uint64_t seed) {
  KeyValues values(specification, ',', fmt::format("--straggler {}", quote(specification)),
                   "kind=uniform,min=0ms,max=50ms", {{"worker", "workers"}});
  const std::string name = values.take("kind");
  if (name.empty()) throw usage_error("{}: found no kind, expected kind=NAME", values.place());
  const auto kind = find_straggler_kind(name, values.place()).make();
  OptionSet options;
  kind->declare(options, workers);
  std::string ranks = "all";
  options.add(std::string(kWorkers), ranks, "");
  values.set(options);
  Straggler straggler;
  straggler.ranks = parse_rank_set(fmt::format("{}: {}", values.place(), kWorkers), ranks, workers);
  ranks = format_rank_set(straggler.ranks);
  straggler.canonical = fmt::format("kind={},{}", name, key_values(options, ','));
  kind->check(values);
  kind->apply(straggler, {workers, seed});
  return straggler;
}

std::vector<std::string> straggler_files(const std::string& specification) {
  constexpr std::string_view kKey = "file";  // key of kind=trace, the one kind with a file
  std::vector<std::string> files;
  for (const std::string_view part : split(specification, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || trim(part.substr(0, equals)) != kKey) continue;
    files.emplace_back(trim(part.substr(equals + 1)));
  }
  return files;
}

}  // namespace hetsgd
