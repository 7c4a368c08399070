#include "cluster/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kFewestSamples = 3;  // launches, operations, bytes
using Column = std::vector<double>;

double dot(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void subtract(Column& a, double factor, const Column& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= factor * b[i];
}

struct Solution {
  std::vector<double> coefficients;
  double squared_residual = 0;
};

// Least squares over the columns in `active` (a bit set) by modified Gram-Schmidt. Nothing if they
// are linearly dependent. The columns have norm 1.
std::optional<Solution> least_squares(const std::vector<Column>& columns, unsigned active,
                                      const Column& target) {
  constexpr double kDependent = 1e-7;  // norm of a column after the others are taken out
  std::vector<std::size_t> index;
  for (std::size_t j = 0; j < columns.size(); ++j) {
    if (active & (1U << j)) index.push_back(j);
  }
  std::vector<Column> q, r(index.size(), Column(index.size()));
  Column projection, residual = target;
  for (std::size_t j = 0; j < index.size(); ++j) {
    Column column = columns[index[j]];
    for (std::size_t i = 0; i < j; ++i) {
      r[i][j] = dot(q[i], column);
      subtract(column, r[i][j], q[i]);
    }
    r[j][j] = std::sqrt(dot(column, column));
    if (r[j][j] < kDependent) return std::nullopt;
    for (double& x : column) x /= r[j][j];
    projection.push_back(dot(column, residual));
    subtract(residual, projection[j], column);
    q.push_back(std::move(column));
  }
  Solution solution{Column(columns.size()), dot(residual, residual)};
  for (std::size_t j = index.size(); j-- > 0;) {
    double value = projection[j];
    for (std::size_t k = j + 1; k < index.size(); ++k) {
      value -= r[j][k] * solution.coefficients[index[k]];
    }
    solution.coefficients[index[j]] = value / r[j][j];
  }
  return solution;
}

void check_samples(std::span<const CalibrationSample> samples) {
  if (samples.size() < kFewestSamples) {
    throw runtime_failure("calibration: found {} samples, expected at least {}", samples.size(),
                          kFewestSamples);
  }
  for (const CalibrationSample& sample : samples) {
    const double time_s = sample.time.count();
    const Work& w = sample.work;
    if (!(time_s > 0) || !std::isfinite(time_s)) {
      throw runtime_failure("calibration: found a time of {} s, expected one above 0", time_s);
    }
    if (!std::isfinite(w.launches + w.operations + w.bytes) || w.launches < 0 || w.operations < 0 ||
        w.bytes < 0) {
      throw runtime_failure(
          "calibration: found work of {} launches, {} operations and {} bytes, expected none "
          "below 0",
          w.launches, w.operations, w.bytes);
    }
  }
}

FitErrors errors_of(const DeviceProfile& profile, std::span<const CalibrationSample> samples,
                    Precision precision) {
  std::vector<double> errors;
  for (const CalibrationSample& sample : samples) {
    errors.push_back(profile.seconds(sample.work, precision) / sample.time - 1);
  }
  return FitErrors(std::move(errors));
}

}  // namespace

double rate_of(double seconds_per_unit) {
  return seconds_per_unit > 1 / kUnlimitedPerSecond ? 1 / seconds_per_unit : kUnlimitedPerSecond;
}

FitErrors::FitErrors(std::vector<double> of_samples) : relative_error(std::move(of_samples)) {
  std::vector<double> absolute;
  for (const double error : relative_error) absolute.push_back(std::abs(error));
  std::sort(absolute.begin(), absolute.end());
  const std::size_t half = absolute.size() / 2;
  median_error =
      absolute.size() % 2 == 1 ? absolute[half] : (absolute[half - 1] + absolute[half]) / 2;
  max_error = absolute.back();
}

// Rows are divided by the measured time, so that the target is 1 and residuals are relative errors;
// columns by their norm, because operations and launches differ by ten orders of magnitude. The
// optimum is the best of all sets of columns whose unconstrained solution is not negative; a set
// that is better by rounding alone does not take the place of one before it.
std::vector<double> fit_times(std::vector<std::vector<double>> columns,
                              std::span<const double> times_s) {
  constexpr double kRounding = 1e-26;  // squared relative errors
  Column norms;
  for (Column& column : columns) {
    for (std::size_t i = 0; i < column.size(); ++i) column[i] /= times_s[i];
    const double norm = std::sqrt(dot(column, column));
    norms.push_back(norm);
    if (norm == 0) continue;  // stays a zero column, which every set refuses as dependent
    for (double& x : column) x /= norm;
  }
  Solution best{Column(columns.size()), std::numeric_limits<double>::infinity()};
  for (unsigned active = 1; active < (1U << columns.size()); ++active) {
    auto solution = least_squares(columns, active, Column(times_s.size(), 1.0));
    if (!solution || solution->squared_residual >= best.squared_residual - kRounding) continue;
    if (std::ranges::any_of(solution->coefficients, [](double c) { return c < 0; })) continue;
    best = *std::move(solution);
  }
  for (std::size_t j = 0; j < norms.size(); ++j) {
    if (norms[j] > 0) best.coefficients[j] /= norms[j];
  }
  return best.coefficients;
}

CalibrationFit fit_device_profile(std::span<const CalibrationSample> samples) {
  check_samples(samples);
  std::vector<Column> columns(3);
  Column times;
  for (const CalibrationSample& sample : samples) {
    columns[0].push_back(sample.work.launches);
    columns[1].push_back(sample.work.operations);
    columns[2].push_back(sample.work.bytes);
    times.push_back(sample.time.count());
  }
  const Column c = fit_times(std::move(columns), times);
  CalibrationFit fit;
  fit.profile.launch_overhead_s = c[0];
  fit.profile.operations_per_s = rate_of(c[1]);
  fit.profile.bytes_per_s = rate_of(c[2]);
  fit.profile.least_step_s = *std::ranges::min_element(times);
  static_cast<FitErrors&>(fit) = errors_of(fit.profile, samples, Precision::fp32);
  return fit;
}

FitErrors fit_bf16_rate(std::span<const CalibrationSample> samples, DeviceProfile& profile) {
  check_samples(samples);
  double least_s = profile.least_step_s.value_or(std::numeric_limits<double>::infinity());
  Column operations, rest;  // over the measured time; the latter is what other rates leave of it
  for (const CalibrationSample& sample : samples) {
    Work other = sample.work;
    other.operations = 0;
    operations.push_back(sample.work.operations / sample.time.count());
    rest.push_back(1 - profile.seconds(other) / sample.time);
    least_s = std::min(least_s, sample.time.count());
  }
  const double square = dot(operations, operations);
  profile.bf16_operations_per_s = rate_of(square > 0 ? dot(operations, rest) / square : 0);
  profile.least_step_s = least_s;
  return errors_of(profile, samples, Precision::bf16);
}

}  // namespace hetsgd
