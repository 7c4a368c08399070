// The kinds of straggler, each a pure function: their declarations and what they make. `hetsgd
// stragglers` and the reading of specifications use the declarations. A new kind is a class in
// straggler_kinds.cpp and a row of its table.
//
// A delay adds time to an iteration, jitter multiplies it, slow phases slow a worker during
// intervals of the clock, a standstill stops it during one, and at a failure it is lost. (A
// constant factor is none of these: it is one number per rank.) A rank is a worker's number in the
// run here, as in the options and files of users.
//
//   compute of a step:  work x factor x jitter, at the rate of the slow phases that it crosses
//   then:               the sum of the delays, at full rate
//   throughout:         nothing moves during a pause
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/straggler.hpp"
#include "core/key_values.hpp"
#include "core/options.hpp"
#include "core/random.hpp"
#include "core/units.hpp"

namespace hetsgd {

// No time of a straggler is longer: beyond this, clock values lose their microseconds.
inline constexpr Seconds kLongestStraggle = Seconds(1e9);

// The extra seconds (>= 0) of one iteration of one rank. Pure: it depends on its arguments and its
// seed alone, never on earlier calls. So any rank can ask for any other, in any order, from any
// thread, and a run can be repeated.
using StraggleDelay = std::function<double(int rank, std::uint64_t iteration)>;

// How many times as long the computation of one iteration takes, from 1 to `largest`. As pure.
struct StraggleJitter {
  std::function<double(int rank, std::uint64_t iteration)> factor;
  double largest = 1;
};

// The factor at a time, and how long it surely stays (not beyond the next change).
struct Phase {
  double factor = 1;   // compute takes this many times as long
  double until_s = 0;  // later than the time asked for
};

// Slow phases are pure as well, in (rank, time). The caller walks a step from phase to phase.
struct SlowPhases {
  std::function<Phase(int rank, double time_s)> at;
  double mean_rate = 1;  // progress per second of clock, over a long time
};

// A pause: [begin, end) on the clock.
struct StandstillInterval {
  double begin_s = 0, end_s = 0;
};

// A worker is lost during this time: [begin, end) on the clock. It may have no end.
struct Downtime {
  double begin_s = 0;
  double end_s = std::numeric_limits<double>::infinity();
  FailureMode mode = FailureMode::killed;

  // Whether the others notice it. They know of a failure after detect_s.
  bool is_noticed(double detect_s) const {
    return mode == FailureMode::killed || end_s - begin_s >= detect_s;
  }
};

// Random downtimes, pure as well: the first one of the rank that ends after time_s.
using Downtimes = std::function<Downtime(int rank, double time_s)>;

// One straggler: its ranks and one of the effects (the others stay as they are here).
struct Straggler {
  std::vector<int> ranks;  // ascending
  double factor = 1;
  StraggleDelay delay = nullptr;
  std::optional<StraggleJitter> jitter;
  std::optional<SlowPhases> slow;
  std::optional<StandstillInterval> pause;
  std::optional<Downtime> fails;  // without an end
  std::optional<double> returns_at_s;
  Downtimes churn = nullptr;
  // "kind=...,key=value,...,workers=0-3", defaults filled in: reads back as the same.
  std::string canonical;
};

struct StragglerInfo {
  std::string name;     // kind=NAME
  std::string title;    // for tables
  std::string idea;     // one sentence
  std::string example;  // a whole specification
};

struct StragglerContext {
  int workers = 1;
  std::uint64_t seed = 0;  // seed of this straggler alone
};

// One specification while it is read: declared, then set by the reader, then checked, then applied.
class StragglerKind {
 public:
  virtual ~StragglerKind() = default;
  // Declares its keys, besides `workers`, which every kind has. Without a number of workers the
  // keys are for the catalogue.
  virtual void declare(OptionSet& set, std::optional<int> workers = std::nullopt) = 0;
  // Checks what the range of a single key cannot state. Throws Error(usage) by values.fail.
  virtual void check(const KeyValues&) const {}
  virtual void apply(Straggler& straggler, const StragglerContext& context) const = 0;
};

struct RegisteredStraggler {
  StragglerInfo info;
  std::function<std::unique_ptr<StragglerKind>()> make;
};

const std::vector<RegisteredStraggler>& straggler_kinds();
// Throws Error(usage) for an unknown kind, listing the known ones and the nearest; `place` opens
// the message.
const RegisteredStraggler& find_straggler_kind(const std::string& name, const std::string& place);

// Makes the straggler of a specification such as 'kind=uniform,min=0ms,max=50ms,workers=0-3'.
// `seed` belongs to this straggler alone. Throws Error(usage), which opens with `--straggler
// "SPECIFICATION"`.
Straggler make_straggler(const std::string& specification, int workers, std::uint64_t seed);

// The draws of the straggler with this seed for one iteration of one rank.
inline RandomStream straggler_draws(std::uint64_t seed, int rank, std::uint64_t iteration) {
  return {seed, Purpose::straggler, iteration, static_cast<std::uint32_t>(rank)};
}

// Slow for `duration` at the start of every period.
SlowPhases periodic_phases(Seconds period, Seconds duration, double factor);
// Slow and normal phases of exponential lengths with these means, in turns and on each rank for
// itself.
SlowPhases burst_phases(std::uint64_t seed, Seconds on, Seconds off, double factor);

// Lives and downtimes of exponential lengths with these means, in turns and on each rank for
// itself, which begins alive.
Downtimes churning(std::uint64_t seed, Seconds mtbf, Seconds mttr, FailureMode mode);

// Reads a delay trace: lines `rank,iteration,delay_s`, rank * = all (a row for the rank itself
// comes first); a header line, blank lines and # comments are skipped. An iteration without a row
// has no delay; iterations beyond the largest repeat from 0. Throws Error(data) naming file, line,
// column, found and expected.
StraggleDelay read_delay_trace(const std::string& file, int workers);

}  // namespace hetsgd
