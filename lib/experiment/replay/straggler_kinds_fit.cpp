// The kind of straggler that explains a series of steps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "experiment/replay/straggler_fit.hpp"
#include "result/statistics.hpp"

namespace hetsgd {
namespace {

constexpr double kNormal95 = 1.959964;

// Quantile of the chi-squared distribution (Wilson and Hilferty 1931) at 2.5 % or 97.5 %.
double chi_squared(double degrees, bool upper) {
  const double part = 2 / (9 * degrees), z = upper ? kNormal95 : -kNormal95;
  return degrees * std::pow(1 - part + z * std::sqrt(part), 3);
}

// --- delays that are drawn for each step

// Asymptotic p-value of a Kolmogorov-Smirnov test.
double ks_p_value(const std::vector<double>& sorted, const std::function<double(double)>& cdf) {
  const double n = static_cast<double>(sorted.size());
  double distance = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double p = cdf(sorted[i]), k = static_cast<double>(i);
    distance = std::max({distance, p - k / n, (k + 1) / n - p});
  }
  const double x = (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n)) * distance;
  double sum = 0;
  for (int j = 1; j <= 100; ++j) {
    sum += (j % 2 == 1 ? 2 : -2) * std::exp(-2.0 * j * j * x * x);
  }
  return std::clamp(x < 0.2 ? 1 : sum, 0.0, 1.0);
}

struct DelayLaw {
  std::string kind;
  double log_likelihood = 0;
  std::vector<FittedParameter> parameters{};
  std::function<double(double)> cdf{};
};

// The bounds lie outside of the extremes by at most t times their distance, with
// (1 + t)^-(n - 1) = 5 %.
DelayLaw uniform_fit(const std::vector<double>& sorted) {
  const double n = static_cast<double>(sorted.size());
  const double low = sorted.front(), high = sorted.back(), width = high - low;
  const double beyond = width * (std::pow(0.05, -1 / (n - 1)) - 1);
  const double shift = width / (n - 1);  // the extremes lie inside by this, on average
  return {"uniform",
          -n * std::log(width),
          {{.key = "min",
            .value = std::max(0.0, low - shift),
            .low = std::max(0.0, low - beyond),
            .high = low},
           {.key = "max", .value = high + shift, .low = high, .high = high + beyond}},
          [=](double x) { return std::clamp((x - low) / width, 0.0, 1.0); }};
}

DelayLaw lognormal_fit(const std::vector<double>& sorted) {
  const double n = static_cast<double>(sorted.size());
  double mean = 0, squares = 0;
  for (const double x : sorted) mean += std::log(x) / n;
  for (const double x : sorted) squares += std::pow(std::log(x) - mean, 2);
  const double sigma = std::sqrt(squares / n), s = std::sqrt(squares / (n - 1));
  double log_likelihood = -n * (std::log(sigma) + 0.5 * std::log(2 * M_PI) + 0.5);
  log_likelihood -= n * mean;
  const double error = (kNormal95 + 2.4 / n) * s / std::sqrt(n);
  return {
      "lognormal",
      log_likelihood,
      {{.key = "median",
        .value = std::exp(mean),
        .low = std::exp(mean - error),
        .high = std::exp(mean + error)},
       {.key = "sigma",
        .value = s,
        .low = std::sqrt(squares / chi_squared(n - 1, true)),
        .high = std::sqrt(squares / chi_squared(n - 1, false)),
        .is_time = false}},
      [=](double x) { return 0.5 * std::erfc(-(std::log(x) - mean) / (sigma * std::sqrt(2.0))); }};
}

// The scale is subtracted (Lomax): density shape / scale (1 + x / scale)^-(shape + 1). For a scale
// the best shape is known, and the scale is found by golden section over its logarithm.
DelayLaw pareto_fit(const std::vector<double>& sorted) {
  const double n = static_cast<double>(sorted.size());
  const auto shape_of = [&](double scale) {
    double sum = 0;
    for (const double x : sorted) sum += std::log1p(x / scale);
    return std::clamp(n / sum, 0.5, 1000.0);
  };
  const auto likelihood = [&](double log_scale) {
    const double scale = std::exp(log_scale), shape = shape_of(scale);
    double sum = 0;
    for (const double x : sorted) sum += std::log1p(x / scale);
    return n * std::log(shape / scale) - (shape + 1) * sum;
  };
  const double middle = std::log(median(sorted));
  double low = middle - 7, high = middle + 7;
  const double golden = (std::sqrt(5.0) - 1) / 2;
  for (int i = 0; i < 60; ++i) {
    const double a = high - golden * (high - low), b = low + golden * (high - low);
    (likelihood(a) > likelihood(b) ? high : low) = likelihood(a) > likelihood(b) ? b : a;
  }
  const double scale = std::exp((low + high) / 2), shape = shape_of(scale);
  // Standard errors of the logarithms, by the information matrix.
  const double shape_error = kNormal95 * (shape + 1) / std::sqrt(n);
  const double scale_error = shape_error * std::sqrt((shape + 2) / shape);
  return {"pareto",
          likelihood(std::log(scale)),
          {{.key = "scale",
            .value = scale,
            .low = scale * std::exp(-scale_error),
            .high = scale * std::exp(scale_error)},
           {.key = "shape",
            .value = shape,
            .low = shape * std::exp(-shape_error),
            .high = shape * std::exp(shape_error),
            .is_time = false}},
          [=](double x) { return 1 - std::pow(1 + x / scale, -shape); }};
}

// All have two parameters, so the smallest AIC is the largest likelihood.
void fit_drawn_delays(std::vector<double> excess, WorkerFit& fit) {
  for (double& each : excess) each = std::max(each, 0.0);
  std::ranges::sort(excess);
  std::vector<DelayLaw> candidates = {uniform_fit(excess)};
  if (excess.front() > 0) candidates.push_back(lognormal_fit(excess));
  if (median(excess) > 0) candidates.push_back(pareto_fit(excess));
  const DelayLaw& best = *std::ranges::max_element(candidates, {}, &DelayLaw::log_likelihood);
  fit.kind = best.kind;
  fit.parameters = best.parameters;
  fit.p_value = ks_p_value(excess, best.cdf);
}

// --- slow phases: excess of two levels

// A series in which most steps are either undisturbed or slower by one factor.
struct TwoLevels {
  std::vector<double> rise;  // excess / undisturbed, by step
  std::vector<bool> slow;    // rise above half of the level
  double level = 0;          // factor - 1
  double spread = 0;         // of the steps that are slow throughout, relative
};

std::optional<TwoLevels> two_levels(const StepSeries& steps) {
  // Steps in which a phase begins or ends lie between the levels.
  constexpr double kMostBetween = 0.3, kFewestOfALevel = 0.02, kWidth = 0.05;
  TwoLevels result;
  for (std::size_t k = 0; k < steps.excess_s.size(); ++k) {
    result.rise.push_back(steps.excess_s[k] / steps.undisturbed_s[k]);
  }
  const double largest = *std::ranges::max_element(result.rise);
  std::vector<double> high;
  for (const double rise : result.rise) {
    if (rise > largest / 2) high.push_back(rise);
  }
  result.level = median(high);
  const double width = std::max(kWidth * result.level, 4 * steps.scatter);
  std::size_t low_count = 0, high_count = 0;
  double spread = 0;
  for (const double rise : result.rise) {
    result.slow.push_back(rise > result.level / 2);
    if (std::abs(rise) <= width) ++low_count;
    if (std::abs(rise - result.level) > width) continue;
    ++high_count;
    spread += std::abs(rise - result.level) / result.level;
  }
  result.spread = spread / static_cast<double>(std::max<std::size_t>(high_count, 1));
  const double n = static_cast<double>(result.rise.size());
  const double between = 1 - static_cast<double>(low_count + high_count) / n;
  const double fewest = kFewestOfALevel * n;
  if (result.level <= 4 * steps.scatter || between > kMostBetween) return std::nullopt;
  if (static_cast<double>(low_count) < fewest || static_cast<double>(high_count) < fewest) {
    return std::nullopt;
  }
  return result;
}

// The moments at which slow phases begin and end. A step in which one begins took the rest of its
// work at the slow rate, one in which it ends the part before. A phase inside of one step is put
// into its middle. Elsewhere phases begin and end with their steps.
struct ObservedPhases {
  std::vector<double> begins, ends;
  double slow_s = 0, normal_s = 0;  // observed time in each state
};

ObservedPhases phases_of(const StepSeries& steps, const TwoLevels& levels) {
  // Less of a step is not told from scatter.
  const double partly = std::max(0.02, 4 * steps.scatter / levels.level);
  const std::size_t n = levels.rise.size();
  const auto touched = [&](std::size_t k) { return levels.rise[k] > partly * levels.level; };
  const auto partial = [&](std::size_t k) { return levels.rise[k] < (1 - partly) * levels.level; };
  const auto end_of = [&](std::size_t k) {
    return steps.begin_s[k] + steps.undisturbed_s[k] + steps.excess_s[k];
  };
  // Time at the slow rate in a step.
  const auto slow_part = [&](std::size_t k) { return steps.excess_s[k] * (1 + 1 / levels.level); };
  ObservedPhases result;
  for (std::size_t k = 0; k < n; ++k) {
    if (!touched(k)) continue;
    const std::size_t first = k;
    while (k + 1 < n && touched(k + 1)) ++k;
    double begin = partial(first) ? end_of(first) - slow_part(first) : steps.begin_s[first];
    double end = partial(k) ? steps.begin_s[k] + slow_part(k) : end_of(k);
    if (first == k && partial(k)) {
      begin = (steps.begin_s[k] + end_of(k) - slow_part(k)) / 2;
      end = begin + slow_part(k);
    }
    if (first > 0) result.begins.push_back(begin);
    if (k + 1 < n) result.ends.push_back(end);
    result.slow_s += end - begin;
  }
  result.normal_s = end_of(n - 1) - steps.begin_s.front() - result.slow_s;
  return result;
}

FittedParameter factor_of(const TwoLevels& levels) {
  const double factor = 1 + levels.level;
  const double error = std::max(1e-6, kNormal95 * levels.spread) * levels.level;
  return {.key = "factor",
          .value = factor,
          .low = factor - error,
          .high = factor + error,
          .is_time = false};
}

// Whether the series repeats: its autocorrelation falls below 0 and rises again above 5 standard
// errors at a later lag.
bool repeats(const std::vector<bool>& slow_steps) {
  constexpr std::size_t kMostSteps = 8192;  // the work grows with the square
  const std::size_t n = std::min(slow_steps.size(), kMostSteps);
  const std::vector<double> slow(slow_steps.begin(), slow_steps.begin() + static_cast<long>(n));
  const double mean = std::accumulate(slow.begin(), slow.end(), 0.0) / static_cast<double>(n);
  if (mean <= 0 || mean >= 1) return false;
  const auto correlation = [&](std::size_t lag) {
    double sum = 0;
    for (std::size_t k = lag; k < n; ++k) sum += (slow[k] - mean) * (slow[k - lag] - mean);
    return sum / (static_cast<double>(n) * mean * (1 - mean));
  };
  double squares = 0;
  std::size_t lag = 1;
  for (double rho = correlation(lag); lag < n / 3 && rho > 0; rho = correlation(++lag)) {
    squares += rho * rho;
  }
  const double error = std::sqrt((1 + 2 * squares) / static_cast<double>(n));
  for (; lag < n / 3; ++lag) {
    if (correlation(lag) > 5 * error) return true;
  }
  return false;
}

// Equal distances: the period is the slope of the begins over their numbers.
bool fit_periodic(const TwoLevels& levels, const ObservedPhases& phases, WorkerFit& fit) {
  constexpr std::size_t kFewestPhases = 4;
  const std::vector<double>& begins = phases.begins;
  if (begins.size() < kFewestPhases || phases.ends.empty() || !repeats(levels.slow)) return false;
  const double count = static_cast<double>(begins.size());
  std::vector<double> distances;
  for (std::size_t i = 1; i < begins.size(); ++i) distances.push_back(begins[i] - begins[i - 1]);
  const double rough = median(distances);
  // Numbers, so that a phase that fell between two steps leaves no gap in the count.
  std::vector<double> number;
  for (const double begin : begins) number.push_back(std::round((begin - begins[0]) / rough));
  const double mean_x = std::accumulate(number.begin(), number.end(), 0.0) / count;
  const double mean_y = std::accumulate(begins.begin(), begins.end(), 0.0) / count;
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    xx += (number[i] - mean_x) * (number[i] - mean_x);
    xy += (number[i] - mean_x) * (begins[i] - mean_y);
  }
  const double period = xy / xx;
  double residuals = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    residuals += std::pow(begins[i] - mean_y - period * (number[i] - mean_x), 2);
  }
  const double deviation = std::sqrt(residuals / (count - 2));
  if (deviation > 0.1 * period) return false;  // exponential distances scatter as much as they are
  std::vector<double> lengths;
  for (const double begin : begins) {
    const auto end = std::ranges::upper_bound(phases.ends, begin);
    if (end != phases.ends.end()) lengths.push_back(*end - begin);
  }
  if (lengths.empty()) return false;
  const double duration = median(lengths);
  const double period_error = kNormal95 * deviation / std::sqrt(xx) + 1e-6 * period;
  const double duration_error = kNormal95 * deviation + 1e-6 * period;
  fit.kind = "periodic";
  fit.parameters = {{.key = "period",
                     .value = period,
                     .low = period - period_error,
                     .high = period + period_error},
                    {.key = "duration",
                     .value = duration,
                     .low = duration - duration_error,
                     .high = duration + duration_error},
                    factor_of(levels)};
  return true;
}

// Twice the logarithm of the likelihood ratio of a Markov chain of two states to independent draws.
double likelihood_ratio(const std::vector<bool>& slow) {
  double moves[2][2] = {};
  for (std::size_t k = 1; k < slow.size(); ++k) ++moves[slow[k - 1]][slow[k]];
  const auto term = [](double count, double of) {
    return count > 0 ? count * std::log(count / of) : 0;
  };
  const double all = static_cast<double>(slow.size() - 1);
  double ratio = 0;
  for (int to = 0; to < 2; ++to) {
    for (int from = 0; from < 2; ++from) {
      ratio += term(moves[from][to], moves[from][0] + moves[from][1]);
    }
    ratio -= term(moves[0][to] + moves[1][to], all);
  }
  return 2 * ratio;
}

// Mean length of the phases that lasted `total` seconds in all, of which `count` ended.
FittedParameter mean_length(std::string key, double total, double count) {
  return {.key = std::move(key),
          .value = total / count,
          .low = 2 * total / chi_squared(2 * count + 1, true),
          .high = 2 * total / chi_squared(2 * count + 1, false)};
}

bool fit_burst(const TwoLevels& levels, const ObservedPhases& phases, WorkerFit& fit) {
  constexpr double kCritical = 6.635;  // of chi-squared with one degree of freedom, 1 %
  if (phases.begins.empty() || phases.ends.empty()) return false;
  if (likelihood_ratio(levels.slow) < kCritical) return false;
  fit.kind = "burst";
  fit.parameters = {mean_length("on", phases.slow_s, static_cast<double>(phases.ends.size())),
                    mean_length("off", phases.normal_s, static_cast<double>(phases.begins.size())),
                    factor_of(levels)};
  return true;
}

}  // namespace

void fit_kind(const StepSeries& steps, WorkerFit& fit) {
  const auto is_scatter = [&](std::size_t k) {
    return std::abs(steps.excess_s[k]) <= 5 * steps.scatter * steps.undisturbed_s[k];
  };
  std::size_t scattered = 0;
  for (std::size_t k = 0; k < steps.excess_s.size(); ++k) scattered += is_scatter(k) ? 1 : 0;
  fit.kind = "none";
  if (static_cast<double>(scattered) >= 0.99 * static_cast<double>(steps.excess_s.size())) return;
  if (steps.excess_s.size() < kFewestSteps) {
    fit.kind = "trace";
    return;
  }
  if (const auto levels = two_levels(steps)) {
    const ObservedPhases phases = phases_of(steps, *levels);
    if (fit_periodic(*levels, phases, fit) || fit_burst(*levels, phases, fit)) return;
  }
  fit_drawn_delays(steps.excess_s, fit);
}

}  // namespace hetsgd
