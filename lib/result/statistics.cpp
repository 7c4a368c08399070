#include "result/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kTail = kResamples / 40;  // 2.5 % on each side

// The largest sizes with exact tests: of the smaller side, of both together, and of the pairs.
constexpr std::size_t kExactSide = 8;
constexpr std::size_t kExactSides = 50;
constexpr std::size_t kExactPairs = 50;

constexpr double kLevel = 0.05;
// Quantiles of the normal distribution: 97.5 %, for a two-sided level of 5 %, plus 80 %, the power.
constexpr double kPowerQuantile = 2.8;

bool has_nan(std::span<const double> values) {
  return std::ranges::any_of(values, [](double x) { return std::isnan(x); });
}

// The median; reorders `values`.
double median_in_place(std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(values.begin(), upper, values.end());
  if (values.size() % 2 == 1) return *upper;
  return (*std::max_element(values.begin(), upper) + *upper) / 2;
}

// Draws resamples of one sample and returns their medians.
class Resampler {
 public:
  Resampler(std::span<const double> values, std::uint64_t seed, std::uint64_t stream)
      : values_(values), random_(seed, Purpose::bootstrap, stream), resample_(values.size()) {
    HETSGD_CHECK(!has_nan(values));
  }
  double next() {
    for (double& x : resample_) x = values_[random_.below(values_.size())];
    return median_in_place(resample_);
  }

 private:
  std::span<const double> values_;
  RandomStream random_;
  std::vector<double> resample_;
};

// The percentile interval of the ratio of the medians. A resample without a ratio counts as 0 for
// the lower end and as infinity for the upper one.
Interval interval_of_ratio(double ratio, Resampler& above, Resampler& below) {
  std::vector<double> low(kResamples), high(kResamples);
  for (std::size_t i = 0; i < low.size(); ++i) {
    const double each = ratio_of_times(above.next(), below.next());
    low[i] = std::isnan(each) ? 0 : each;
    high[i] = std::isnan(each) ? kInfinity : each;
  }
  return {ratio, lower_end(low), upper_end(high)};
}

// log(a / b); 0 if both are equal, infinite if only one of them is positive and finite.
double log_ratio(double a, double b) {
  if (a == b) return 0;
  if (a > 0 && b > 0 && std::isfinite(a) && std::isfinite(b)) return std::log(a / b);
  return a > b ? kInfinity : -kInfinity;
}

// Twice the mean ranks of the values, from 2 on. Twice, so that they are integers.
std::vector<std::size_t> double_ranks(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  std::vector<std::size_t> ranks;
  for (const double value : values) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
    ranks.push_back(
        static_cast<std::size_t>((first - sorted.begin()) + (last - sorted.begin()) + 1));
  }
  return ranks;
}

// The share of the ways to choose `count` of the ranks whose sum is at most `most`. p[k]
// has the probabilities of the sums of k ranks: if k of the first i ranks are chosen, the next one
// is with probability (count - k) / (all - i).
double share_of_orders(const std::vector<std::size_t>& ranks, std::size_t count, std::size_t most) {
  std::vector<std::vector<double>> p(count + 1, std::vector<double>(most + 1));
  p[0][0] = 1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t k = std::min(count, i + 1); k-- > 0;) {
      const double chosen = static_cast<double>(count - k) / static_cast<double>(ranks.size() - i);
      for (std::size_t sum = 0; sum <= most; ++sum) {
        if (sum + ranks[i] <= most) p[k + 1][sum + ranks[i]] += chosen * p[k][sum];
        p[k][sum] *= 1 - chosen;
      }
    }
  }
  return std::accumulate(p[count].begin(), p[count].end(), 0.0);
}

// Twice the smaller tail of the sum of the first `count` of the double ranks, among all ways to
// choose so many.
double p_of_orders(std::vector<std::size_t> ranks, std::size_t count) {
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(count);
  const std::size_t sum = std::accumulate(ranks.begin(), end, std::size_t{0});
  const std::size_t both_ends = 2 * ranks.size() + 2;
  const double below = share_of_orders(ranks, count, sum);
  for (std::size_t& rank : ranks) rank = both_ends - rank;  // ranks counted from above
  return std::min(1.0, 2 * std::min(below, share_of_orders(ranks, count, count * both_ends - sum)));
}

// The share of the 2^n choices of ranks whose sum is at most `most`.
double share_of_choices(const std::vector<std::size_t>& ranks, std::size_t most) {
  std::vector<double> p(most + 1);
  p[0] = 1;
  for (const std::size_t rank : ranks) {
    for (std::size_t sum = most + 1; sum-- > 0;) {
      p[sum] = (p[sum] + (sum >= rank ? p[sum - rank] : 0)) / 2;
    }
  }
  return std::accumulate(p.begin(), p.end(), 0.0);
}

bool has_logs(std::span<const double> values) {
  return std::ranges::all_of(values, [](double x) { return x > 0 && std::isfinite(x); });
}

std::vector<double> logs(std::span<const double> values) {
  std::vector<double> result;
  for (const double value : values) result.push_back(std::log(value));
  return result;
}

double variance_of_mean(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / (n - 1) / n;
}

// The sum of t^3 - t over the groups of t equal values.
double tie_term(std::vector<double> all) {
  std::ranges::sort(all);
  double sum = 0;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::upper_bound(first, all.end(), *first);
    const auto t = static_cast<double>(last - first);
    sum += t * t * t - t;
    first = last;
  }
  return sum;
}

}  // namespace

double lower_end(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + kTail, values.end());
  return values[kTail];
}

double upper_end(std::vector<double>& values) {
  std::nth_element(values.begin(), values.end() - 1 - kTail, values.end());
  return values[values.size() - 1 - kTail];
}

double median(std::span<const double> values) {
  HETSGD_CHECK(!values.empty());
  std::vector<double> copy(values.begin(), values.end());
  return median_in_place(copy);
}

Interval bootstrap_median(std::span<const double> values, std::uint64_t seed) {
  Resampler resampler(values, seed, 0);
  std::vector<double> medians(kResamples);
  for (double& each : medians) each = resampler.next();
  return {median(values), lower_end(medians), upper_end(medians)};
}

double ratio_of_times(double a, double b) {
  if (std::isinf(a) && std::isinf(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return 1;  // also if both are 0
  return a / b;
}

Interval bootstrap_ratio(std::span<const double> numerator, std::span<const double> denominator,
                         std::uint64_t seed) {
  const double ratio = ratio_of_times(median(numerator), median(denominator));
  if (std::isnan(ratio)) return {ratio, ratio, ratio};
  Resampler above(numerator, seed, 0), below(denominator, seed, 1);
  return interval_of_ratio(ratio, above, below);
}

Interval bootstrap_paired_ratio(std::span<const double> numerator,
                                std::span<const double> denominator, std::uint64_t seed) {
  HETSGD_CHECK(numerator.size() == denominator.size());
  const double ratio = ratio_of_times(median(numerator), median(denominator));
  if (std::isnan(ratio)) return {ratio, ratio, ratio};
  // One seed and one stream: both sides draw the same places.
  Resampler above(numerator, seed, 0), below(denominator, seed, 0);
  return interval_of_ratio(ratio, above, below);
}

MannWhitney mann_whitney(std::span<const double> x, std::span<const double> y) {
  HETSGD_CHECK(!x.empty() && !y.empty() && !has_nan(x) && !has_nan(y));
  MannWhitney result;
  if (x.size() > y.size()) {
    result = mann_whitney(y, x);
    result.u = static_cast<double>(x.size() * y.size()) - result.u;
    return result;
  }
  for (const double a : x) {
    for (const double b : y) result.u += a > b ? 1 : (a == b ? 0.5 : 0);
  }
  std::vector<double> all(x.begin(), x.end());
  all.insert(all.end(), y.begin(), y.end());
  result.exact = x.size() <= kExactSide || all.size() <= kExactSides;
  if (result.exact) {
    result.p_value = p_of_orders(double_ranks(all), x.size());
    return result;
  }
  const auto m = static_cast<double>(x.size()), n = static_cast<double>(y.size());
  const double total = m + n, smaller = std::min(result.u, m * n - result.u);
  const double variance = m * n / 12 * (total + 1 - tie_term(all) / (total * (total - 1)));
  if (variance <= 0) return result;  // all values are equal
  const double z = std::max(0.0, m * n / 2 - smaller - 0.5) / std::sqrt(variance);
  result.p_value = std::erfc(z / std::sqrt(2.0));
  return result;
}

SignedRank signed_rank(std::span<const double> x, std::span<const double> y) {
  HETSGD_CHECK(x.size() == y.size() && !x.empty() && !has_nan(x) && !has_nan(y));
  std::vector<double> differences, sizes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    differences.push_back(log_ratio(x[i], y[i]));
    sizes.push_back(std::abs(differences.back()));
  }
  const std::vector<std::size_t> all = double_ranks(sizes);
  std::vector<std::size_t> ranks;  // without those of equal pairs
  std::size_t above = 0, total = 0;
  double squares = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (sizes[i] == 0) continue;
    ranks.push_back(all[i]);
    total += all[i];
    squares += static_cast<double>(all[i] * all[i]);
    if (differences[i] > 0) above += all[i];
  }
  SignedRank result{.w = static_cast<double>(above) / 2};
  result.exact = x.size() <= kExactPairs;
  if (ranks.empty()) return result;
  const std::size_t smaller = std::min(above, total - above);
  if (result.exact) {
    result.p_value = std::min(1.0, 2 * share_of_choices(ranks, smaller));
    return result;
  }
  const double distance = static_cast<double>(total) / 2 - static_cast<double>(smaller);
  result.p_value = std::erfc(distance / std::sqrt(squares / 4) / std::sqrt(2.0));
  return result;
}

bool can_show(std::size_t pairs) { return 2 * std::pow(0.5, static_cast<double>(pairs)) <= kLevel; }

bool can_show(std::size_t x, std::size_t y) {
  return mann_whitney(std::vector<double>(x, 0), std::vector<double>(y, 1)).p_value <= kLevel;
}

double least_paired_effect(std::span<const double> x, std::span<const double> y) {
  HETSGD_CHECK(x.size() == y.size());
  if (!has_logs(x) || !has_logs(y)) return std::numeric_limits<double>::quiet_NaN();
  if (!can_show(x.size())) return kInfinity;
  std::vector<double> differences = logs(x);
  const std::vector<double> base = logs(y);
  for (std::size_t i = 0; i < base.size(); ++i) differences[i] -= base[i];
  return std::exp(kPowerQuantile * std::sqrt(variance_of_mean(differences)));
}

double least_effect(std::span<const double> x, std::span<const double> y) {
  if (!has_logs(x) || !has_logs(y)) return std::numeric_limits<double>::quiet_NaN();
  if (!can_show(x.size(), y.size())) return kInfinity;
  return std::exp(kPowerQuantile *
                  std::sqrt(variance_of_mean(logs(x)) + variance_of_mean(logs(y))));
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> corrected(p_values.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, factor * p_values[order[rank]]));
    corrected[order[rank]] = largest;
  }
  return corrected;
}

}  // namespace hetsgd
