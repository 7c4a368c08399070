// Stragglers: a scenario is a pure function (rank, iteration, time) -> slowdown, drawn from the run's seed without
// messages, and used by every cluster. `sim` charges it to the virtual clock; `threads` and `mpi` delay for the
// difference and report requested against achieved.
//
// Specification, one or several, as on the command line: 'kind=uniform,min=0ms,max=50ms[,workers=0-3;5]'.
//   constant   factor=3 [worker(s)]                 compute takes factor times as long
//   uniform    min, max                             extra delay per iteration, U(min, max)          (paper 004: 0-50 ms)
//   groups     split=N, min1, max1, min2, max2      ranks < N draw from the first range, the rest from the second
//   lognormal  median, sigma                        extra delay, exp(N(ln median, sigma^2))
//   pareto     scale, shape                         extra delay, Pareto minus scale (starts at 0)
//   periodic   period, duration, factor             factor during the first `duration` of each period of time
//   burst      on, off, factor                      exponential on/off phases of these mean lengths, per rank
//   trace      file=F.csv                           rows rank,iteration,delay_s (rank * = all), repeated at the end
//   pause      at=T, duration=D                     nothing moves from T for D
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

class Scenario {
 public:
  // Parses the specifications. Errors (usage) name the option, the key and the valid kinds or keys, with the
  // nearest spelling.
  Scenario(const std::vector<std::string>& specifications, int workers, std::uint64_t seed);
  ~Scenario();
  Scenario(Scenario&&) noexcept;
  Scenario& operator=(Scenario&&) noexcept;

  // How long iteration `iteration` of worker `rank`, which starts at `start` and would take `compute` undisturbed,
  // takes with all stragglers: >= compute. Factors multiply, extra delays add, pauses last. Thread-safe.
  Seconds stretched(int rank, std::uint64_t iteration, Seconds start, Seconds compute) const;

  bool empty() const;
  // The specifications with defaults filled in, for the result.
  const std::vector<std::string>& specifications() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
