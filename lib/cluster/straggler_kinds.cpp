#include "cluster/straggler_kinds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "cluster/straggler.hpp"
#include "core/error.hpp"
#include "core/key_values.hpp"
#include "core/random.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// Shorter phases would only slow the simulation down: a step would cross thousands of them.
constexpr Seconds kShortestPhase = 1us;
constexpr double kLargestFactor = 1e9;

// The draws of one straggler for one iteration of one rank.
RandomStream draws(std::uint64_t seed, int rank, std::uint64_t iteration) {
  return {seed, Purpose::straggler, iteration, static_cast<std::uint32_t>(rank)};
}

class Uniform final : public DelaySource {
 public:
  // Ranks below `split` draw from the first range, the others from the second.
  Uniform(std::uint64_t seed, int split, Seconds min1, Seconds max1, Seconds min2, Seconds max2)
      : seed_(seed),
        split_(split),
        min_s_{min1.count(), min2.count()},
        max_s_{max1.count(), max2.count()} {}

  double delay_s(int rank, std::uint64_t iteration) const override {
    const std::size_t group = rank < split_ ? 0 : 1;
    return draws(seed_, rank, iteration).uniform(min_s_[group], max_s_[group]);
  }

 private:
  std::uint64_t seed_;
  int split_;
  std::array<double, 2> min_s_, max_s_;
};

class Lognormal final : public DelaySource {
 public:
  Lognormal(std::uint64_t seed, Seconds median, double sigma)
      : seed_(seed), mu_(std::log(median.count())), sigma_(sigma) {}
  double delay_s(int rank, std::uint64_t iteration) const override {
    return draws(seed_, rank, iteration).lognormal(mu_, sigma_);
  }

 private:
  std::uint64_t seed_;
  double mu_, sigma_;
};

class Pareto final : public DelaySource {
 public:
  Pareto(std::uint64_t seed, Seconds scale, double shape)
      : seed_(seed), scale_s_(scale.count()), shape_(shape) {}
  double delay_s(int rank, std::uint64_t iteration) const override {
    return std::max(0.0, draws(seed_, rank, iteration).pareto(scale_s_, shape_) - scale_s_);
  }

 private:
  std::uint64_t seed_;
  double scale_s_, shape_;
};

// The k with k * length <= time < (k+1) * length in floating point, so that a boundary belongs to
// one side only (the quotient can be off by one).
double block_of(double time_s, double length_s) {
  const double k = std::floor(time_s / length_s);
  if (k * length_s > time_s) return k - 1;
  return (k + 1) * length_s <= time_s ? k + 1 : k;
}

class Periodic final : public SlowSource {
 public:
  Periodic(Seconds period, Seconds duration, double factor)
      : period_s_(period.count()), duration_s_(duration.count()), factor_(factor) {}
  Phase phase(int, double time_s) const override {
    const double k = block_of(time_s, period_s_);
    const double slow_end = k * period_s_ + duration_s_;
    if (time_s < slow_end) return {.factor = factor_, .until_s = slow_end};
    return {.until_s = (k + 1) * period_s_};
  }
  double mean_rate() const override {
    const double slow_share = duration_s_ / period_s_;
    return slow_share / factor_ + (1 - slow_share);
  }

 private:
  double period_s_, duration_s_, factor_;
};

// Exponential phases, on and off, as a pure function of time.
//
// The two-state Markov chain with rates 1/on (on -> off) and 1/off is the same process as: at the
// events of a Poisson process of rate lambda = 1/on + 1/off draw the state anew, on with
// probability on/(on+off). So the state at the end of a block of time depends only on the last
// event before it, an Exp(lambda) time X back: the block draws X and the new state S first; before
// end - X its chain runs freely from the state in which the block before ended. Any time is reached
// without the history, at the cost of one block, and the law is exact.
class Burst final : public SlowSource {
 public:
  Burst(std::uint64_t seed, Seconds on, Seconds off, double factor)
      : seed_(seed),
        mean_s_{off.count(), on.count()},
        factor_(factor),
        rate_(1 / on.count() + 1 / off.count()),
        on_share_(on / (on + off)),
        length_s_(4 * (on + off).count()) {}

  Phase phase(int rank, double time_s) const override {
    const double k = block_of(time_s, length_s_);
    const double end = (k + 1) * length_s_;
    RandomStream random = stream(rank, k);
    const Renewal renewal = draw_renewal(random);
    const double free_end = renewal.inside ? end - renewal.back_s : end;
    bool on = state_before(rank, k);
    for (double at = k * length_s_; at < free_end; on = !on) {
      at = std::min(at + random.exponential() * mean_s_[on ? 1 : 0], free_end);
      if (time_s < at) return {.factor = on ? factor_ : 1, .until_s = at};
    }
    return {.factor = renewal.on ? factor_ : 1, .until_s = end};
  }
  double mean_rate() const override { return on_share_ / factor_ + (1 - on_share_); }

 private:
  struct Renewal {
    double back_s;  // from the end of the block
    bool on;
    bool inside;  // the block: practically always
  };

  // Of one block: after 2^63 of them all are the same.
  RandomStream stream(int rank, double k) const {
    return draws(seed_, rank, static_cast<std::uint64_t>(std::min(k, 0x1p63)));
  }
  Renewal draw_renewal(RandomStream& random) const {
    const double back_s = random.exponential() / rate_;
    const bool on = random.uniform() < on_share_;
    return {back_s, on, back_s < length_s_};
  }
  // The state at the start of block k: that of the newest renewal before it; before time 0 there is
  // one, too.
  bool state_before(int rank, double k) const {
    for (double j = k - 1; j >= 0; --j) {
      RandomStream random = stream(rank, j);
      const Renewal renewal = draw_renewal(random);
      if (renewal.inside) return renewal.on;
    }
    return draws(seed_, rank, UINT64_MAX).uniform() < on_share_;
  }

  std::uint64_t seed_;
  std::array<double, 2> mean_s_;  // off, on
  double factor_, rate_, on_share_, length_s_;
};

constexpr std::string_view kWorkers = "workers";

// One specification on its way: each kind declares its keys, reads them, and makes the straggler.
class StragglerReader {
 public:
  StragglerReader(KeyValues& values, int size, std::uint64_t own_seed)
      : workers(size), seed(own_seed), values_(values) {}

  OptionRefiner time(const std::string& key, Seconds& value, Seconds least = Seconds(0)) {
    return options_.add(key, value, "").range(least.count(), kLongestStraggle.count());
  }
  OptionRefiner number(const std::string& key, double& value, double least, double most) {
    return options_.add(key, value, "").range(least, most);
  }
  OptionRefiner factor(double& value) { return number("factor", value, 1, kLargestFactor); }
  OptionRefiner whole(const std::string& key, int& value, int least, int most) {
    return options_.add(key, value, "").range(least, most);
  }
  OptionRefiner text(const std::string& key, std::string& value) {
    return options_.add(key, value, "");
  }

  void read(const std::string& kind) {
    std::string ranks = "all";
    options_.add(std::string(kWorkers), ranks, "");
    values_.set(options_);
    straggler.ranks =
        parse_rank_set(fmt::format("{}: {}", values_.place(), kWorkers), ranks, workers);
    ranks = format_rank_set(straggler.ranks);
    straggler.canonical = fmt::format("kind={},{}", kind, key_values(options_, ','));
  }
  void at_least(std::string_view key, Seconds value, Seconds least) const {
    if (value < least) fail(key, fmt::format("a time of at least {}", format_seconds(least)));
  }
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const {
    values_.fail(key, expected);
  }

  const int workers;
  const std::uint64_t seed;
  Straggler straggler;

 private:
  KeyValues& values_;
  OptionSet options_;
};

void read_constant(StragglerReader& r, const std::string& kind) {
  r.factor(r.straggler.factor).required("3");
  r.read(kind);
}

void read_uniform(StragglerReader& r, const std::string& kind) {
  Seconds min{0}, max{0};
  r.time("min", min);
  r.time("max", max).required("50ms");
  r.read(kind);
  r.at_least("max", max, min);
  r.straggler.delay =
      std::make_unique<Uniform>(r.seed, std::numeric_limits<int>::max(), min, max, min, max);
}

void read_groups(StragglerReader& r, const std::string& kind) {
  int split = 0;
  Seconds min1{0}, max1{0}, min2{0}, max2{0};
  r.whole("split", split, 0, r.workers).required("4");
  r.time("min1", min1);
  r.time("max1", max1).required("50ms");
  r.time("min2", min2);
  r.time("max2", max2).required("100ms");
  r.read(kind);
  r.at_least("max1", max1, min1);
  r.at_least("max2", max2, min2);
  r.straggler.delay = std::make_unique<Uniform>(r.seed, split, min1, max1, min2, max2);
}

void read_lognormal(StragglerReader& r, const std::string& kind) {
  Seconds median{0};
  double sigma = 1;
  r.time("median", median).above(0).required("10ms");
  r.number("sigma", sigma, 0, 10);
  r.read(kind);
  r.straggler.delay = std::make_unique<Lognormal>(r.seed, median, sigma);
}

void read_pareto(StragglerReader& r, const std::string& kind) {
  Seconds scale{0};
  double shape = 2;
  r.time("scale", scale).required("10ms");
  // Below a shape of 1/2 single draws leave every scale of time behind (the smallest uniform is
  // 2^-53).
  r.number("shape", shape, 0.5, 1000);
  r.read(kind);
  r.straggler.delay = std::make_unique<Pareto>(r.seed, scale, shape);
}

void read_periodic(StragglerReader& r, const std::string& kind) {
  Seconds period{0}, duration{0};
  double factor = 1;
  r.time("period", period, kShortestPhase).required("10s");
  r.time("duration", duration).required("2s");
  r.factor(factor).required("3");
  r.read(kind);
  if (duration > period) r.fail("duration", "a time no longer than the period");
  r.straggler.slow = std::make_unique<Periodic>(period, duration, factor);
}

void read_burst(StragglerReader& r, const std::string& kind) {
  Seconds on{0}, off{0};
  double factor = 1;
  r.time("on", on, kShortestPhase).required("1s");
  r.time("off", off, kShortestPhase).required("10s");
  r.factor(factor).required("3");
  r.read(kind);
  r.straggler.slow = std::make_unique<Burst>(r.seed, on, off, factor);
}

void read_trace(StragglerReader& r, const std::string& kind) {
  std::string file;
  r.text("file", file).required("delays.csv");
  r.read(kind);
  r.straggler.delay = read_delay_trace(file, r.workers);
}

void read_pause(StragglerReader& r, const std::string& kind) {
  Seconds at{0}, duration{0};
  r.time("at", at).required("30s");
  r.time("duration", duration).required("5s");
  r.read(kind);
  r.straggler.pause = Pause{at.count(), (at + duration).count()};
}

struct Kind {
  std::string name;
  void (*read)(StragglerReader&, const std::string& kind);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"constant", read_constant},   {"uniform", read_uniform}, {"groups", read_groups},
      {"lognormal", read_lognormal}, {"pareto", read_pareto},   {"periodic", read_periodic},
      {"burst", read_burst},         {"trace", read_trace},     {"pause", read_pause}};
  return all;
}

}  // namespace

Straggler make_straggler(const std::string& specification, int workers, std::uint64_t seed) {
  KeyValues values(specification, ',', fmt::format("--straggler {}", quote(specification)),
                   "kind=uniform,min=0ms,max=50ms", {{"worker", "workers"}});
  const std::string name = values.take("kind");
  if (name.empty()) throw usage_error("{}: found no kind, expected kind=NAME", values.place());
  const auto kind = std::ranges::find(kinds(), name, &Kind::name);
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const Kind& each : kinds()) names.push_back(each.name);
    throw with_hint(usage_error("{}: found kind {}, expected {}", values.place(), quote(name),
                                alternatives(names)),
                    did_you_mean(name, names));
  }
  StragglerReader reader(values, workers, seed);
  kind->read(reader, kind->name);
  return std::move(reader.straggler);
}

std::vector<std::string> straggler_files(const std::string& specification) {
  constexpr std::string_view kKey = "file";  // of kind=trace, the one kind with a file
  std::vector<std::string> files;
  for (const std::string_view part : split(specification, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || trim(part.substr(0, equals)) != kKey) continue;
    files.emplace_back(trim(part.substr(equals + 1)));
  }
  return files;
}

}  // namespace hetsgd
