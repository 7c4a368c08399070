// Draws of the kinds of straggler: slow phases, and delays from a file.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/straggler_kinds.hpp"
#include "core/csv.hpp"
#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/random.hpp"

namespace hetsgd {

namespace {

// The k with k * length <= time < (k+1) * length in floating point. So a boundary belongs to one
// side only, although the quotient can be off by one.
double block_of(double time_s, double length_s) {
  const double k = std::floor(time_s / length_s);
  if (k * length_s > time_s) return k - 1;
  return (k + 1) * length_s <= time_s ? k + 1 : k;
}

// Exponential phases, on and off, as a pure function of time.
//
// The two-state Markov chain with rates 1/on (on -> off) and 1/off is the same process as: at the
// events of a Poisson process of rate lambda = 1/on + 1/off draw the state anew, on with
// probability on/(on+off). So the state at the end of a block of time depends only on the last
// event before it, an Exp(lambda) time X back: the block draws X and the new state S first; before
// end - X its chain runs freely from the state in which the block before ended. Any time is reached
// without the history, at the cost of one block, and the law is exact.
class Burst {
 public:
  Burst(std::uint64_t seed, Seconds on, Seconds off, double factor)
      : seed_(seed),
        mean_s_{off.count(), on.count()},
        factor_(factor),
        rate_(1 / on.count() + 1 / off.count()),
        on_share_(on / (on + off)),
        length_s_(4 * (on + off).count()) {}

  Phase phase(int rank, double time_s) const {
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
  double mean_rate() const { return on_share_ / factor_ + (1 - on_share_); }

 private:
  struct Renewal {
    double back_s;  // distance from the end of the block
    bool on;
    bool inside;  // the block: practically always
  };

  // Draws of one block. After 2^63 blocks all are the same.
  RandomStream stream(int rank, double k) const {
    return straggler_draws(seed_, rank, static_cast<std::uint64_t>(std::min(k, 0x1p63)));
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
    return straggler_draws(seed_, rank, UINT64_MAX).uniform() < on_share_;
  }

  std::uint64_t seed_;
  std::array<double, 2> mean_s_;  // off, on
  double factor_, rate_, on_share_, length_s_;
};

}  // namespace

SlowPhases periodic_phases(Seconds period, Seconds duration, double factor) {
  const double period_s = period.count(), duration_s = duration.count();
  const double slow_share = duration_s / period_s;
  return {[=](int, double time_s) {
            const double k = block_of(time_s, period_s), slow_end = k * period_s + duration_s;
            if (time_s < slow_end) return Phase{.factor = factor, .until_s = slow_end};
            return Phase{.until_s = (k + 1) * period_s};
          },
          slow_share / factor + (1 - slow_share)};
}

SlowPhases burst_phases(std::uint64_t seed, Seconds on, Seconds off, double factor) {
  const Burst burst(seed, on, off, factor);
  return {[burst](int rank, double time_s) { return burst.phase(rank, time_s); },
          burst.mean_rate()};
}

// kind=trace: delays from a file.

namespace {

constexpr int kAllRanks = -1;
constexpr std::uint64_t kMostTraceBytes = std::uint64_t{1} << 30;

struct Row {
  int rank = 0;
  std::uint64_t iteration = 0;
  double delay_s = 0;
  std::size_t line = 0;

  bool before(int other_rank, std::uint64_t other_iteration) const {
    return rank != other_rank ? rank < other_rank : iteration < other_iteration;
  }
};

class DelayTrace {
 public:
  DelayTrace(std::vector<Row> rows, std::uint64_t length)
      : rows_(std::move(rows)), length_(length) {}

  double delay_s(int rank, std::uint64_t iteration) const {
    const std::uint64_t at = iteration % length_;
    if (const Row* row = find(rank, at)) return row->delay_s;
    const Row* row = find(kAllRanks, at);
    return row ? row->delay_s : 0;
  }

 private:
  const Row* find(int rank, std::uint64_t iteration) const {
    const auto row = std::partition_point(rows_.begin(), rows_.end(),
                                          [&](const Row& r) { return r.before(rank, iteration); });
    return row != rows_.end() && row->rank == rank && row->iteration == iteration ? &*row : nullptr;
  }

  std::vector<Row> rows_;  // by rank and iteration
  std::uint64_t length_;
};

Row read_row(const CsvRows& fields, int workers, const std::string& a_rank) {
  constexpr double kMostIterations = 0x1p53;
  Row row{.rank = kAllRanks, .line = fields.line()};
  if (fields.field(0) != "*") row.rank = static_cast<int>(fields.whole(0, workers - 1, a_rank));
  row.iteration = fields.whole(1, kMostIterations, "an iteration, counted from 0");
  static const std::string a_delay =
      fmt::format("a delay from 0 to {:g} s", kLongestStraggle.count());
  row.delay_s = fields.number(2, kLongestStraggle.count(), a_delay);
  return row;
}

}  // namespace

Downtimes churning(std::uint64_t seed, Seconds mtbf, Seconds mttr, FailureMode mode) {
  // Each begins where the one before it ends, so those that were drawn are kept.
  struct Drawn {
    std::mutex mutex;
    std::map<int, std::vector<Downtime>> of_rank;
  };
  return [=, drawn = std::make_shared<Drawn>()](int rank, double time_s) {
    const std::lock_guard lock(drawn->mutex);
    std::vector<Downtime>& all = drawn->of_rank[rank];
    while (all.empty() || all.back().end_s <= time_s) {
      RandomStream draws = straggler_draws(seed, rank, all.size());
      Downtime down{.begin_s = all.empty() ? 0 : all.back().end_s, .mode = mode};
      down.begin_s += draws.exponential() * mtbf.count();
      down.end_s = down.begin_s + draws.exponential() * mttr.count();
      all.push_back(down);
    }
    return *std::ranges::upper_bound(all, time_s, {}, &Downtime::end_s);
  };
}

StraggleDelay read_delay_trace(const std::string& file, int workers) {
  const std::string all = read_text_file(file, {.noun = "trace of delays"}, kMostTraceBytes);
  std::vector<Row> rows;
  std::uint64_t length = 0;
  CsvRows lines(all, file, "rank,iteration,delay_s");
  const std::string a_rank = fmt::format("a rank from 0 to {}, or *", workers - 1);
  while (lines.next()) {
    rows.push_back(read_row(lines, workers, a_rank));
    length = std::max(length, rows.back().iteration + 1);
  }
  if (rows.empty()) {
    throw data_error("{}: found no rows, expected lines such as 2,0,0.05 (rank,iteration,delay_s)",
                     file);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.before(b.rank, b.iteration); });
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i - 1].before(rows[i].rank, rows[i].iteration)) continue;
    throw data_error("{}:{}:1: found the rank and iteration of line {} again, expected them once",
                     file, rows[i].line, rows[i - 1].line);
  }
  return [trace = std::make_shared<const DelayTrace>(std::move(rows), length)](
             int rank, std::uint64_t iteration) { return trace->delay_s(rank, iteration); };
}

}  // namespace hetsgd
