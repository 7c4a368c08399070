#include "cluster/calibrate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kColumns = 3;  // launches, operations, bytes
using Column = std::vector<double>;
using Coefficients = std::array<double, kColumns>;

double dot(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void subtract(Column& a, double factor, const Column& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= factor * b[i];
}

struct Solution {
  Coefficients coefficient{};
  double squared_residual = 0;
};

// Least squares over the columns in `active` (a bit set) by modified Gram-Schmidt. Nothing if they
// are linearly dependent. The columns have norm 1.
std::optional<Solution> least_squares(const std::array<Column, kColumns>& columns, unsigned active,
                                      const Column& target) {
  constexpr double kDependent = 1e-7;  // of a column, after the others are taken out
  std::vector<std::size_t> index;
  for (std::size_t j = 0; j < kColumns; ++j) {
    if (active & (1U << j)) index.push_back(j);
  }
  std::vector<Column> q;
  std::array<Coefficients, kColumns> r{};
  Coefficients projection{};
  Column residual = target;
  for (std::size_t j = 0; j < index.size(); ++j) {
    Column column = columns[index[j]];
    for (std::size_t i = 0; i < j; ++i) {
      r[i][j] = dot(q[i], column);
      subtract(column, r[i][j], q[i]);
    }
    r[j][j] = std::sqrt(dot(column, column));
    if (r[j][j] < kDependent) return std::nullopt;
    for (double& x : column) x /= r[j][j];
    projection[j] = dot(column, residual);
    subtract(residual, projection[j], column);
    q.push_back(std::move(column));
  }
  Solution solution{.squared_residual = dot(residual, residual)};
  for (std::size_t j = index.size(); j-- > 0;) {
    double value = projection[j];
    for (std::size_t k = j + 1; k < index.size(); ++k) {
      value -= r[j][k] * solution.coefficient[index[k]];
    }
    solution.coefficient[index[j]] = value / r[j][j];
  }
  return solution;
}

// The non-negative least squares solution: the best of the seven sets of columns whose
// unconstrained solution is not negative (the optimum is one of these).
Coefficients non_negative_least_squares(const std::array<Column, kColumns>& columns,
                                        const Column& target) {
  Coefficients best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned active = 1; active < (1U << kColumns); ++active) {
    const auto solution = least_squares(columns, active, target);
    if (!solution || solution->squared_residual >= least) continue;
    if (std::any_of(solution->coefficient.begin(), solution->coefficient.end(),
                    [](double c) { return c < 0; })) {
      continue;
    }
    best = solution->coefficient;
    least = solution->squared_residual;
  }
  return best;
}

void check_samples(std::span<const CalibrationSample> samples) {
  if (samples.size() < kColumns) {
    throw runtime_failure("calibration: found {} samples, expected at least {}", samples.size(),
                          kColumns);
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

CalibrationFit fit_device_profile(std::span<const CalibrationSample> samples) {
  check_samples(samples);
  // Rows are divided by the measured time, so that the target is 1 and residuals are relative
  // errors; columns by their norm, because operations and launches differ by ten orders of
  // magnitude.
  std::array<Column, kColumns> columns;
  for (const CalibrationSample& sample : samples) {
    const double time_s = sample.time.count();
    columns[0].push_back(sample.work.launches / time_s);
    columns[1].push_back(sample.work.operations / time_s);
    columns[2].push_back(sample.work.bytes / time_s);
  }
  Coefficients norm{};
  for (std::size_t j = 0; j < kColumns; ++j) {
    norm[j] = std::sqrt(dot(columns[j], columns[j]));
    if (norm[j] == 0) continue;  // stays a zero column, which every set refuses as dependent
    for (double& x : columns[j]) x /= norm[j];
  }
  Coefficients c = non_negative_least_squares(columns, Column(samples.size(), 1.0));
  for (std::size_t j = 0; j < kColumns; ++j) c[j] = norm[j] > 0 ? c[j] / norm[j] : 0;

  CalibrationFit fit;
  fit.profile.launch_overhead_s = c[0];
  fit.profile.operations_per_s = rate_of(c[1]);
  fit.profile.bytes_per_s = rate_of(c[2]);
  std::vector<double> errors;
  for (const CalibrationSample& sample : samples) {
    errors.push_back(fit.profile.seconds(sample.work) / sample.time - 1);
  }
  static_cast<FitErrors&>(fit) = FitErrors(std::move(errors));
  return fit;
}

}  // namespace hetsgd
