// Helpers that check runs of algorithms.
#pragma once

#include "support/compare.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {

// The run is refused by a usage error with this text.
inline void expect_refused(const Settings& settings, const std::string& message) {
  EXPECT_THAT(usage_error_of([&] { run_training(settings); }), testing::HasSubstr(message));
}

// Values that a histogram has counted.
inline std::uint64_t observations(const Record& run, const std::string& histogram) {
  std::uint64_t sum = 0;
  for (const auto& [value, count] : run.histograms.at(histogram)) sum += count;
  return sum;
}

// A profile whose steps take the same time, whatever is in a batch.
inline const std::pair<std::string, std::string> kEqualSteps{
    "profile", HETSGD_TEST_DATA "/latency_only_profile.json"};

}  // namespace hetsgd::test
