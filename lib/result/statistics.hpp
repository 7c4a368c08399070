// Statistics over the seeds of an experiment. A target that was missed is infinity, never dropped.
#pragma once

#include <cstdint>
#include <span>

namespace hetsgd {

// The middle value, or the mean of the two middle ones. May be infinity. Values: at least one, none
// NaN.
double median(std::span<const double> values);

struct Interval {
  double median = 0;
  double low = 0,
         high = 0;  // 95 % bootstrap interval of the median; both ends are medians of resamples
};

inline constexpr int kResamples = 10000;

// Percentile bootstrap (Efron 1979) of the median with kResamples resamples: the ends are order
// statistics, not interpolated, so that they may be infinity. A pure function of its arguments.
Interval bootstrap_median(std::span<const double> values, std::uint64_t seed = 1);

}  // namespace hetsgd
