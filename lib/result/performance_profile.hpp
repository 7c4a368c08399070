// Performance profiles, and the score that is the area below them.
//
// E. D. Dolan, J. J. More, "Benchmarking optimization software with performance profiles",
// Mathematical Programming 91, 2002; as a score: G. Dahl and others, "Benchmarking neural network
// training algorithms" (AlgoPerf), 2023.
//
//   r(m, p) = t(m, p) / min over m' of t(m', p)       ratio of method m on problem p, from 1 on
//   rho(m, tau) = share of the problems with r(m, p) <= tau                       the profile
//   score(m) = 1 / (R - 1) * integral of rho(m, tau) over tau from 1 to R
//            = mean over p of max(0, (R - r(m, p)) / (R - 1))
//
// with t the median time to the target over the seeds; a missed target is infinity, whose ratio is
// infinity. So 1 is the score of who is best everywhere, 0 of who is never within R times the best.
// Another method can only shorten the best times: it raises nobody's score.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hetsgd {

inline constexpr double kProfileEnd = 4;  // R, as AlgoPerf has it

// r for a median time and the best one: 1 where both are equal and finite, also 0; infinity where
// `time` is.
double ratio_to_best(double time, double best);
// The area below the profile of these ratios, over kProfileEnd - 1. Ratios: at least one, none NaN.
double profile_area(std::span<const double> ratios);

struct MethodTimes {
  std::string method;
  std::vector<std::vector<double>> times_s;  // by problem, by seed; infinity: missed
};

struct MethodScore {
  double score = 0, low = 0, high = 0;   // 95 % bootstrap interval, which holds the score
  std::vector<double> median_s, ratios;  // by problem
  std::size_t solved = 0;                // problems whose median is finite
  std::size_t rank = 0;                  // 1: the best; equal scores share the best of their ranks
  std::size_t rank_low = 0, rank_high = 0;  // 95 % bootstrap interval, which holds the rank
};

// In the order given. All methods have the same problems, at least one, and the same seeds of a
// problem, at least one, in the same order.
//
// The bootstrap draws seeds, for each problem anew and for all methods alike, since all of them
// start with a seed's parameters and meet its data: kResamples resamples, percentile intervals. Where
// many methods are close, the best of their resampled medians is mostly earlier than the best
// median, so that an interval may lie below the score; it then is extended to it. A pure function of
// its arguments; what is drawn does not depend on the methods.
std::vector<MethodScore> score_methods(std::span<const MethodTimes> methods,
                                       std::uint64_t seed = 1);

}  // namespace hetsgd
