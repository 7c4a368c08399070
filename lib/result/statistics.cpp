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

// The largest size of the smaller side with an exact test (the limit of scipy.stats.mannwhitneyu).
constexpr std::size_t kExactSize = 8;

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

// P(U <= u) for sides of m and n values without ties. The largest value is either an x, which then
// exceeds all n y, or a y. So the number of orders of m + n values with a given U is count(m, n, u)
// = count(m - 1, n, u - n) + count(m, n - 1, u). The code uses probabilities, so that no count
// overflows: the largest value is an x with probability m / (m + n).
double exact_cdf(std::size_t m, std::size_t n, std::size_t u) {
  std::vector<std::vector<double>> p(m + 1, std::vector<double>(u + 1));
  for (auto& row : p) row[0] = 1;  // n = 0: U is 0
  for (std::size_t j = 1; j <= n; ++j) {
    for (std::size_t i = 1; i <= m; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(i + j);
      for (std::size_t v = 0; v <= u; ++v) {
        const double x_largest = v >= j ? p[i - 1][v - j] : 0;
        p[i][v] = share * x_largest + (1 - share) * p[i][v];
      }
    }
  }
  double sum = 0;
  for (const double each : p[m]) sum += each;
  return sum;
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
  std::vector<double> low(kResamples), high(kResamples);
  for (std::size_t i = 0; i < low.size(); ++i) {
    const double each = ratio_of_times(above.next(), below.next());
    low[i] = std::isnan(each) ? 0 : each;
    high[i] = std::isnan(each) ? kInfinity : each;
  }
  return {ratio, lower_end(low), upper_end(high)};
}

MannWhitney mann_whitney(std::span<const double> x, std::span<const double> y) {
  HETSGD_CHECK(!x.empty() && !y.empty() && !has_nan(x) && !has_nan(y));
  MannWhitney result;
  for (const double a : x) {
    for (const double b : y) result.u += a > b ? 1 : (a == b ? 0.5 : 0);
  }
  std::vector<double> all(x.begin(), x.end());
  all.insert(all.end(), y.begin(), y.end());
  const auto m = static_cast<double>(x.size()), n = static_cast<double>(y.size());
  const double smaller = std::min(result.u, m * n - result.u);
  const double ties = tie_term(all);
  result.exact = ties == 0 && std::min(x.size(), y.size()) <= kExactSize;
  if (result.exact) {
    const double tail = exact_cdf(std::min(x.size(), y.size()), std::max(x.size(), y.size()),
                                  static_cast<std::size_t>(smaller));
    result.p_value = std::min(1.0, 2 * tail);
    return result;
  }
  const double total = m + n;
  const double variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)));
  if (variance <= 0) return result;  // all values are equal
  const double z = std::max(0.0, m * n / 2 - smaller - 0.5) / std::sqrt(variance);
  result.p_value = std::erfc(z / std::sqrt(2.0));
  return result;
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
