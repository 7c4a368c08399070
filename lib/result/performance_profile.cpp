#include "result/performance_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"
#include "result/statistics.hpp"

namespace hetsgd {
namespace {

constexpr double kNeverReached = std::numeric_limits<double>::infinity();

// The medians of all methods and problems, and the ratios, scores and ranks that follow from them.
struct Standings {
  std::vector<std::vector<double>> medians, ratios;  // by method, by problem
  std::vector<double> scores;
  std::vector<std::size_t> ranks;
};

template <class MedianOf>
Standings standings_by(std::size_t methods, std::size_t problems, const MedianOf& median_of) {
  Standings all;
  all.medians.assign(methods, std::vector<double>(problems));
  all.ratios = all.medians;
  for (std::size_t p = 0; p < problems; ++p) {
    double best = kNeverReached;
    for (std::size_t m = 0; m < methods; ++m) {
      all.medians[m][p] = median_of(m, p);
      best = std::min(best, all.medians[m][p]);
    }
    for (std::size_t m = 0; m < methods; ++m) {
      all.ratios[m][p] = ratio_to_best(all.medians[m][p], best);
    }
  }
  for (const std::vector<double>& ratios : all.ratios) all.scores.push_back(profile_area(ratios));
  for (const double score : all.scores) {
    all.ranks.push_back(1 + static_cast<std::size_t>(std::ranges::count_if(
                                all.scores, [&](double other) { return other > score; })));
  }
  return all;
}

void check_shapes(std::span<const MethodTimes> methods) {
  for (const MethodTimes& each : methods) {
    HETSGD_CHECK(!each.times_s.empty() && each.times_s.size() == methods[0].times_s.size());
    for (std::size_t p = 0; p < each.times_s.size(); ++p) {
      HETSGD_CHECK(!each.times_s[p].empty() &&
                   each.times_s[p].size() == methods[0].times_s[p].size());
    }
  }
}

// Scores and ranks of each method in each resample.
struct Resamples {
  std::vector<std::vector<double>> scores, ranks;  // by method
};

Resamples resample(std::span<const MethodTimes> methods, std::uint64_t seed) {
  const std::size_t problems = methods[0].times_s.size();
  Resamples all{std::vector<std::vector<double>>(methods.size()),
                std::vector<std::vector<double>>(methods.size())};
  std::vector<RandomStream> random;
  std::vector<std::vector<std::size_t>> drawn;  // by problem: indices of the drawn seeds
  for (std::size_t p = 0; p < problems; ++p) {
    random.emplace_back(seed, Purpose::bootstrap, p);
    drawn.emplace_back(methods[0].times_s[p].size());
  }
  std::vector<double> times;
  for (int i = 0; i < kResamples; ++i) {
    for (std::size_t p = 0; p < problems; ++p) {
      for (std::size_t& place : drawn[p]) place = random[p].below(drawn[p].size());
    }
    const Standings each =
        standings_by(methods.size(), problems, [&](std::size_t m, std::size_t p) {
          times.clear();
          for (const std::size_t place : drawn[p]) times.push_back(methods[m].times_s[p][place]);
          return median(times);
        });
    for (std::size_t m = 0; m < methods.size(); ++m) {
      all.scores[m].push_back(each.scores[m]);
      all.ranks[m].push_back(static_cast<double>(each.ranks[m]));
    }
  }
  return all;
}

}  // namespace

double ratio_to_best(double time, double best) {
  if (std::isinf(time)) return kNeverReached;
  return ratio_of_times(time, best);
}

double profile_area(std::span<const double> ratios) {
  HETSGD_CHECK(!ratios.empty());
  double area = 0;
  for (const double ratio : ratios) {
    area += std::max(0.0, (kProfileEnd - ratio) / (kProfileEnd - 1));
  }
  return area / static_cast<double>(ratios.size());
}

std::vector<MethodScore> score_methods(std::span<const MethodTimes> methods, std::uint64_t seed) {
  if (methods.empty()) return {};
  check_shapes(methods);
  const std::size_t problems = methods[0].times_s.size();
  const Standings found = standings_by(methods.size(), problems, [&](std::size_t m, std::size_t p) {
    return median(methods[m].times_s[p]);
  });
  Resamples resamples = resample(methods, seed);
  std::vector<MethodScore> all;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    MethodScore& each = all.emplace_back();
    each.score = found.scores[m];
    each.low = std::min(each.score, lower_end(resamples.scores[m]));
    each.high = std::max(each.score, upper_end(resamples.scores[m]));
    each.median_s = found.medians[m];
    each.ratios = found.ratios[m];
    each.solved = static_cast<std::size_t>(
        std::ranges::count_if(each.median_s, [](double time) { return std::isfinite(time); }));
    each.rank = found.ranks[m];
    const auto low = static_cast<std::size_t>(lower_end(resamples.ranks[m]));
    const auto high = static_cast<std::size_t>(upper_end(resamples.ranks[m]));
    each.rank_low = std::min(each.rank, low);
    each.rank_high = std::max(each.rank, high);
  }
  return all;
}

}  // namespace hetsgd
