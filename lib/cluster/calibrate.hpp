// Fits a device profile to measured times. The measuring is done elsewhere; this is the
// mathematics: non-negative linear least squares in three unknowns, the seconds per launch, per
// operation and per byte. Their sum over a piece of work is its time (DeviceProfile::seconds).
// Errors are relative, so that the short samples count as much as the long ones. Networks are
// fitted in the same way (calibrate_network.hpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/profile.hpp"
#include "core/units.hpp"

namespace hetsgd {

// A piece of work of one learner, and the time that it took. Saturation is not fitted.
struct CalibrationSample {
  Work work;
  Seconds time{0};
};

// Differences between a fitted model and the measured times.
struct FitErrors {
  // One per sample, in the order given: (predicted - measured) / measured. There is at least one.
  explicit FitErrors(std::vector<double> of_samples);
  FitErrors() = default;

  std::vector<double> relative_error;
  double median_error = 0;  // median of the absolute relative errors
  double max_error = 0;
};

// The profile, and its errors on the samples that it was fitted to.
struct CalibrationFit : FitErrors {
  DeviceProfile profile;
};

// Units per second of a fitted cost; kUnlimitedPerSecond where it is 0, or so small that its
// inverse would be larger than that.
double rate_of(double seconds_per_unit);

// Returns one coefficient >= 0 per column. The weighted sum of the columns minimises the sum of
// squared relative errors to the times. All columns are as long as `times_s`, whose values are
// above 0. A column of zeros gets 0. Columns are few, so every set of them is tried.
std::vector<double> fit_times(std::vector<std::vector<double>> columns,
                              std::span<const double> times_s);

// The launch overhead, rate and bandwidth >= 0 that minimise the sum of squared relative errors of
// DeviceProfile::seconds over the samples. A cost that the samples do not need (its best
// coefficient is 0, or it never occurs) becomes free: no overhead, or kUnlimitedPerSecond. Name,
// source and memory are left to the caller. Throws Error(runtime) if there are fewer than three
// samples, a time or a work is not finite, or a time is not above 0.
CalibrationFit fit_device_profile(std::span<const CalibrationSample> samples);

// Sets bf16_operations_per_s of `profile`, whose other rates are fitted already. It minimises the
// sum of squared relative errors over steps with products in BF16, or is kUnlimitedPerSecond if the
// other rates explain their times. A shorter sample lowers least_step_s. Returns the errors. Throws
// what fit_device_profile() throws.
FitErrors fit_bf16_rate(std::span<const CalibrationSample> samples, DeviceProfile& profile);

}  // namespace hetsgd
