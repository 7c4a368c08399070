#include "training/record.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

double CurvePoint::test_loss() const {
  return metric_of(*this, kTestLoss).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::optional<double> metric_of(const CurvePoint& point, const std::string& metric) {
  if (metric == kTrainLoss) return point.train_loss;
  for (const MetricValue& each : point.metrics) {
    if (each.metric->key() == metric) return each.value;
  }
  return std::nullopt;
}

std::optional<double> accuracy_of(const CurvePoint& point) {
  for (const MetricValue& each : point.metrics) {
    if (each.metric->higher_is_better()) return each.value;
  }
  return std::nullopt;
}

void PhaseTimes::loaded(double seconds) {
  load_s = seconds;
  loaded_at_ = HostClock::now();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  began_unix_s = std::chrono::duration<double>(now).count() - seconds;
}

void PhaseTimes::begin_training() {
  settle();
  training_ = true;
}

void PhaseTimes::settle() {
  total_s = wall_s(HostClock::now());
  double& running = training_ ? train_s : init_s;
  // The maximum keeps rounding of the sums from making it negative.
  running = std::max(0.0, total_s - (sum_s() - running));
}

double PhaseTimes::wall_s(HostClock::time_point now) const {
  return load_s + std::chrono::duration<double>(now - loaded_at_).count();
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(text, n);
}

std::string to_string(Status status) {
  static constexpr std::array<const char*, 7> kNames = {
      "running", "completed", "target_reached", "diverged", "aborted", "failed", "time_limit"};
  return kNames[static_cast<std::size_t>(status)];
}

}  // namespace hetsgd
