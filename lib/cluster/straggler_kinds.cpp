#include "cluster/straggler_kinds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"

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

using Specification = StragglerSpecification;

void read_constant(Specification& s, Straggler& straggler, int, std::uint64_t) {
  straggler.factor = s.number("factor", 1, kLargestFactor);
}

void read_uniform(Specification& s, Straggler& straggler, int, std::uint64_t seed) {
  const Seconds min = s.seconds("min");
  const Seconds max = s.seconds("max", min);
  straggler.delay =
      std::make_unique<Uniform>(seed, std::numeric_limits<int>::max(), min, max, min, max);
}

void read_groups(Specification& s, Straggler& straggler, int workers, std::uint64_t seed) {
  const int split = s.integer("split", 0, workers);
  const Seconds min1 = s.seconds("min1");
  const Seconds max1 = s.seconds("max1", min1);
  const Seconds min2 = s.seconds("min2");
  const Seconds max2 = s.seconds("max2", min2);
  straggler.delay = std::make_unique<Uniform>(seed, split, min1, max1, min2, max2);
}

void read_lognormal(Specification& s, Straggler& straggler, int, std::uint64_t seed) {
  const Seconds median = s.seconds("median");
  if (median <= Seconds(0)) s.fail("median", "a time above 0");
  straggler.delay = std::make_unique<Lognormal>(seed, median, s.number("sigma", 0, 10));
}

void read_pareto(Specification& s, Straggler& straggler, int, std::uint64_t seed) {
  const Seconds scale = s.seconds("scale");
  // Below a shape of 1/2 single draws leave every scale of time behind (the smallest uniform is
  // 2^-53).
  straggler.delay = std::make_unique<Pareto>(seed, scale, s.number("shape", 0.5, 1000));
}

void read_periodic(Specification& s, Straggler& straggler, int, std::uint64_t) {
  const Seconds period = s.seconds("period", kShortestPhase);
  const Seconds duration = s.seconds("duration");
  if (duration > period) s.fail("duration", "a time no longer than the period");
  const double factor = s.number("factor", 1, kLargestFactor);
  straggler.slow = std::make_unique<Periodic>(period, duration, factor);
}

void read_burst(Specification& s, Straggler& straggler, int, std::uint64_t seed) {
  const Seconds on = s.seconds("on", kShortestPhase);
  const Seconds off = s.seconds("off", kShortestPhase);
  straggler.slow = std::make_unique<Burst>(seed, on, off, s.number("factor", 1, kLargestFactor));
}

void read_trace(Specification& s, Straggler& straggler, int workers, std::uint64_t) {
  straggler.delay = read_delay_trace(s.text("file"), workers);
}

void read_pause(Specification& s, Straggler& straggler, int, std::uint64_t) {
  const Seconds at = s.seconds("at");
  straggler.pause = Pause{at.count(), (at + s.seconds("duration")).count()};
}

struct Kind {
  std::string name;
  std::vector<StragglerKey> keys;
  void (*read)(Specification&, Straggler&, int workers, std::uint64_t seed);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"constant", {{"factor", "3", nullptr}}, read_constant},
      {"uniform", {{"min", "0ms", "0s"}, {"max", "50ms", nullptr}}, read_uniform},
      {"groups",
       {{"split", "4", nullptr},
        {"min1", "0ms", "0s"},
        {"max1", "50ms", nullptr},
        {"min2", "50ms", "0s"},
        {"max2", "100ms", nullptr}},
       read_groups},
      {"lognormal", {{"median", "10ms", nullptr}, {"sigma", "1", "1"}}, read_lognormal},
      {"pareto", {{"scale", "10ms", nullptr}, {"shape", "2", "2"}}, read_pareto},
      {"periodic",
       {{"period", "10s", nullptr}, {"duration", "2s", nullptr}, {"factor", "3", nullptr}},
       read_periodic},
      {"burst",
       {{"on", "1s", nullptr}, {"off", "10s", nullptr}, {"factor", "3", nullptr}},
       read_burst},
      {"trace", {{"file", "delays.csv", nullptr}}, read_trace},
      {"pause", {{"at", "30s", nullptr}, {"duration", "5s", nullptr}}, read_pause},
  };
  return all;
}

}  // namespace

Straggler make_straggler(StragglerSpecification& specification, int workers, std::uint64_t seed) {
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const Kind& k) { return k.name == specification.kind(); });
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const Kind& k : kinds()) names.push_back(k.name);
    specification.fail_unknown_kind(names);
  }
  specification.declare(kind->keys);
  Straggler straggler;
  kind->read(specification, straggler, workers, seed);
  straggler.ranks = specification.workers(workers);
  return straggler;
}

}  // namespace hetsgd
