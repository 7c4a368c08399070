// Statistics over the seeds of an experiment. A target that was missed is infinity, never dropped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// The ends of a percentile interval: the order statistics with 2.5 % of kResamples values below, or
// above, them. They reorder `values`, of which there are kResamples, none NaN.
double lower_end(std::vector<double>& values);
double upper_end(std::vector<double>& values);

// Percentile bootstrap (Efron 1979) of the median with kResamples resamples: the ends are order
// statistics, not interpolated, so that they may be infinity. A pure function of its arguments.
Interval bootstrap_median(std::span<const double> values, std::uint64_t seed = 1);

// a / b of times that may be infinite: 1 if both are equal and finite, NaN if both are infinite.
double ratio_of_times(double a, double b);

// ratio_of_times of the two medians (`median` of the interval), with the percentile bootstrap of
// it: both sides are resampled independently. A resample in which both medians are infinite says
// nothing: it counts as 0 for the lower end and as infinity for the upper one. If the ratio of the
// medians itself is NaN, so are the ends.
Interval bootstrap_ratio(std::span<const double> numerator, std::span<const double> denominator,
                         std::uint64_t seed = 1);

struct MannWhitney {
  double u = 0;        // pairs (x, y) with x > y; a tie counts as one half
  double p_value = 1;  // two-sided
  bool exact = false;  // by the distribution of U; else by the normal approximation
};

// Mann-Whitney U test (1947): do values of one side tend to be larger? Infinities are equal to each
// other. Exact if nothing is tied and the smaller side has at most 8 values; else the normal
// approximation with the correction for ties and for continuity. Both sides: at least one value,
// none NaN. If all values are equal, p_value is 1.
MannWhitney mann_whitney(std::span<const double> x, std::span<const double> y);

// p-values of a family of tests, corrected so that the chance of any false finding among them stays
// what each promises (Holm 1979), in the order given. Values: none NaN.
std::vector<double> holm(std::span<const double> p_values);

}  // namespace hetsgd
