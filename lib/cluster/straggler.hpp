// Stragglers: a scenario is a pure function (worker, iteration, time) -> slowdown, drawn from the
// run's seed without messages, and used by every cluster. `sim` charges it to the virtual clock;
// `threads` and `mpi` delay for the difference and report requested against achieved.
//
// Specification, one or several, as on the command line: 'kind=uniform,min=0ms,max=50ms'. Every
// kind takes workers=0-3;5 (or worker=2); without it all workers are meant. Times take suffixes.
// The kinds and their keys: `hetsgd stragglers`, straggler_kinds.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

// The files that a specification reads; none, also where it is not well formed.
std::vector<std::string> straggler_files(const std::string& specification);

// The state of a worker that has failed, until it returns. The others see no difference.
//
//            its memory        what it computes at that time    back before the others know
//   killed   is gone           is cut short                     it is lost all the same
//   stopped  stays             stands still                     a pause without messages
//   cut_off  stays             comes to its end                 its communication waits
//
// In real time no worker is cut short: it is lost when it begins a computation (segment.hpp).
//
// A worker that is back after the others know has no use for its memory. They have gone on without
// it, so it takes their state in place of its stale copy.
enum class FailureMode { killed, stopped, cut_off };
std::string_view to_string(FailureMode mode);

// A worker is lost from `at` on, and returns at `returns`, which may be infinite.
struct Lost {
  Seconds at{0}, returns{0};
  FailureMode mode = FailureMode::killed;
  bool for_good() const { return !std::isfinite(returns.count()); }
};

// Workers are named by their number in the run.
class Scenario {
 public:
  // Parses the specifications. The place of one in the list is part of its seed, so that two equal
  // ones draw independently. detect: how long after a failure the others know of it. Throws
  // Error(usage) naming the option, the key and the valid kinds or keys with the nearest spelling,
  // and Error(data) for a broken trace file.
  Scenario(const std::vector<std::string>& specifications, int workers, std::uint64_t seed,
           Seconds detect = Seconds(0));

  // Time that iteration `iteration` of the worker takes with all stragglers, >= `compute`. It
  // starts at `start` and would take `compute` undisturbed. Factors multiply and hold while their
  // phase lasts (a step that leaves a slow phase is slowed in its first part only). Extra delays
  // add after the compute and are not slowed; in a pause nothing moves. No iteration: a further
  // part of one that has begun, whose jitter and extra delays its first part has had. Thread-safe.
  Seconds stretched(int worker, std::optional<std::uint64_t> iteration, Seconds start,
                    Seconds compute) const;

  // The first loss of the worker that has not ended at `time`; none: it lives from then on.
  std::optional<Lost> lost(int worker, Seconds time) const;
  // Whether any worker is ever lost.
  bool has_failures() const;
  // When the worker can begin to communicate: at `time`, or when it is back from a failure that the
  // others do not know of.
  Seconds reachable(int worker, Seconds time) const;
  // Whether that is ever later than `time`.
  bool has_gaps() const;

  // The specifications with defaults filled in, for the result; they parse to the same scenario.
  const std::vector<std::string>& specifications() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;  // immutable, so that copies share it
};

}  // namespace hetsgd
