// Scenarios of injected delays, for their tests.
#pragma once

#include "cluster/straggler.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {

inline Scenario scenario(const std::vector<std::string>& specifications, int workers = 4,
                         std::uint64_t seed = 1) {
  return {specifications, workers, seed};
}

// The delay that iteration `iteration` of `rank` gets on top of its compute time.
inline double delay(const Scenario& s, int rank, std::uint64_t iteration) {
  return s.stretched(rank, iteration, 0s, 0s).count();
}

// The factor in effect at `time`, read off a step too short to cross a phase.
inline double factor_at(const Scenario& s, int rank, double time_s) {
  constexpr double kProbe = 1e-9;
  return s.stretched(rank, 0, Seconds(time_s), Seconds(kProbe)).count() / kProbe;
}

// A delay trace in a file of its own, for as long as the test needs it.
struct TraceFile : TemporaryFile {
  explicit TraceFile(const std::string& text) : TemporaryFile("delays", text) {}
};

}  // namespace hetsgd::test
