// Fits a device profile to measured times. The measuring is done elsewhere; this is the
// mathematics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/profile.hpp"
#include "core/units.hpp"

namespace hetsgd {

// A piece of work and the time that it took.
struct CalibrationSample {
  Work work;
  Seconds time{0};
};

struct CalibrationFit {
  DeviceProfile profile;
  // Per sample, in the order given: (predicted - measured) / measured.
  std::vector<double> relative_error;
  double median_error = 0;  // of the absolute relative errors
  double max_error = 0;
};

// The launch overhead, rate and bandwidth >= 0 that minimise the sum of squared relative errors of
// DeviceProfile::seconds over the samples. What the samples do not need (its best coefficient is 0,
// or it never occurs) becomes free: no overhead, or kUnlimitedPerSecond. Name, source and memory
// are left to the caller. Errors: runtime, if there are fewer than three samples, or a time or a
// work is not finite, or a time is not above 0.
CalibrationFit fit_device_profile(std::span<const CalibrationSample> samples);

}  // namespace hetsgd
