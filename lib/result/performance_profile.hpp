// Performance profiles, and scores, which are the areas below them.
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
// Here t is the median time to the target over the seeds. A missed target is infinity, and so is
// its ratio. So a method that is best everywhere has score 1, and one that is never within R times
// the best has score 0. An additional method can only shorten the best times, so it raises no other
// score.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hetsgd {

inline constexpr double kProfileEnd = 4;  // R, as AlgoPerf has it

// The ratio r of a median time to the best one: 1 if both are equal and finite (also 0), infinity
// if `time` is.
double ratio_to_best(double time, double best);
// The area below the profile of these ratios, divided by kProfileEnd - 1. Needs at least one ratio,
// none NaN.
double profile_area(std::span<const double> ratios);

struct MethodTimes {
  std::string method;
  std::vector<std::vector<double>> times_s;  // by problem, by seed; infinity: missed
};

struct MethodScore {
  double score = 0, low = 0, high = 0;      // 95 % bootstrap interval, which holds the score
  std::vector<double> median_s, ratios;     // by problem
  std::size_t solved = 0;                   // problems whose median is finite
  std::size_t rank = 0;                     // 1: best; equal scores share the best of their ranks
  std::size_t rank_low = 0, rank_high = 0;  // 95 % bootstrap interval, which holds the rank
};

// Scores in the order of `methods`. All methods have the same problems, at least one, and the same
// seeds of each problem, at least one, in the same order.
//
// The bootstrap makes kResamples resamples of the seeds and takes percentile intervals. It draws
// seeds anew for each problem, and the same ones for all methods, because a seed sets the initial
// parameters and the data order of all. If many methods are close, the best resampled median is
// mostly below the best median. An interval may then lie below the score, and is extended to
// contain it. A pure function of its arguments; the draws do not depend on the methods.
std::vector<MethodScore> score_methods(std::span<const MethodTimes> methods,
                                       std::uint64_t seed = 1);

}  // namespace hetsgd
