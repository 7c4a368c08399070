// Statistics over the seeds of an experiment. A missed target counts as infinity and is never
// dropped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hetsgd {

// The middle value, or the mean of the two middle ones. May be infinity. Needs at least one value,
// none NaN.
double median(std::span<const double> values);

struct Interval {
  double median = 0;
  double low = 0,
         high = 0;  // 95 % bootstrap interval of the median; both ends are medians of resamples
};

inline constexpr int kResamples = 10000;

// The ends of a percentile interval: the order statistics with 2.5 % of the values below or above
// them. They reorder `values`, which must be kResamples numbers, none NaN.
double lower_end(std::vector<double>& values);
double upper_end(std::vector<double>& values);

// Percentile bootstrap (Efron 1979) of the median with kResamples resamples. The ends are order
// statistics without interpolation, so they may be infinity. A pure function of its arguments.
Interval bootstrap_median(std::span<const double> values, std::uint64_t seed = 1);

// a / b of times that may be infinite: 1 if both are equal and finite, NaN if both are infinite.
double ratio_of_times(double a, double b);

// The ratio_of_times of the two medians (`median` of the interval), with its percentile bootstrap.
// Both sides are resampled independently. A resample in which both medians are infinite has no
// ratio. It counts as 0 for the lower end and as infinity for the upper one. If the ratio of the
// medians itself is NaN, so are the ends.
Interval bootstrap_ratio(std::span<const double> numerator, std::span<const double> denominator,
                         std::uint64_t seed = 1);

// The same of pairs: numerator[i] and denominator[i] belong to one seed. A resample draws seeds, so
// that the effect of a seed on both sides does not widen the interval. The ratio is that of the
// medians and not the median of the ratios, for three reasons. It is the quotient of the medians
// that stand beside it. It is the product of its two factors. It is known as long as more than half
// of the seeds reach the target. Both sides have the same number of values.
Interval bootstrap_paired_ratio(std::span<const double> numerator,
                                std::span<const double> denominator, std::uint64_t seed = 1);

struct MannWhitney {
  double u = 0;        // pairs (x, y) with x > y; a tie counts as one half
  double p_value = 1;  // two-sided
  bool exact = false;  // by counting all orders; else by the normal approximation
};

// Mann-Whitney U test (1947) of whether the values of one side tend to be larger. Infinities are
// equal to each other. If the smaller side has at most 8 values, or both together have at most 50,
// the p-value is twice the smaller tail of all ways to share the given values out among the sides,
// so that ties do not make it approximate. Beyond, it is the normal approximation with corrections
// for ties and continuity. Both sides need at least one value, none NaN. If all values are equal,
// p_value is 1.
MannWhitney mann_whitney(std::span<const double> x, std::span<const double> y);

struct SignedRank {
  double w = 0;        // sum of the ranks of the pairs with x > y
  double p_value = 1;  // two-sided
  bool exact = false;  // by counting all signs; else by the normal approximation
};

// The Wilcoxon signed-rank test (1945) of whether log(x[i] / y[i]) of the pairs tends to lie on one
// side of 0. Ranks are those of the sizes of the log ratios; equal sizes share their mean rank. A
// pair of equal values, such as two missed targets, is ranked too and then left out (Pratt 1959). A
// pair with one missed target has the largest rank. Up to 50 pairs the p-value counts all signs of
// the given ranks, so that ties do not make it approximate. Beyond, it is the normal approximation
// with the variance of these ranks and without a correction for continuity. Both sides have the
// same number of values, at least one, none NaN. If all pairs are equal, p_value is 1.
SignedRank signed_rank(std::span<const double> x, std::span<const double> y);

// Whether a two-sided test of this many seeds can have a p-value of 0.05 or less: the signed-rank
// test from six pairs on (2 of 2^6 signs), the Mann-Whitney test from four against four on (2 of 70
// orders).
bool can_show(std::size_t pairs);
bool can_show(std::size_t x, std::size_t y);

// The least true ratio that a normal mean of so many log ratios would have shown with a probability
// of 80 % at a level of 5 %: exp(2.8 e), where e is the standard error of the mean log ratio (2.8 =
// 1.96 + 0.84). At it the tests of ranks above have a power of 45 % (six pairs) to 75 % (twenty).
// Pairs: e is the standard deviation of the log ratios over the root of their number. NaN if a
// value is not positive or not finite, such as a missed target. Infinity if so few seeds can show
// no ratio.
double least_paired_effect(std::span<const double> x, std::span<const double> y);
double least_effect(std::span<const double> x, std::span<const double> y);

// The p-values of a family of tests in the given order, corrected by Holm's method (1979). The
// correction bounds the probability of any false finding in the family. No value may be NaN.
std::vector<double> holm(std::span<const double> p_values);

}  // namespace hetsgd
