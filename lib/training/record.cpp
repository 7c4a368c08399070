#include "training/record.hpp"

#include <array>
#include <chrono>
#include <ctime>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names = {"p1",  "p3",        "p5",        "accuracy",
                                                 "auc", "test_loss", "train_loss"};
  return names;
}

std::string Target::text() const {
  return fmt::format("{}{}{}", metric, at_least ? ">=" : "<=", value);
}

Target parse_target(const std::string& text, const std::string& place) {
  const auto at = text.find_first_of("<>");
  if (at == std::string::npos || at + 1 >= text.size() || text[at + 1] != '=') {
    throw with_hint(
        usage_error("{}: found {}, expected METRIC>=VALUE or METRIC<=VALUE", place, quote(text)),
        "for example p1>=0.6; quote it, since the shell redirects at > and <");
  }
  Target target;
  target.metric = std::string(trim(std::string_view(text).substr(0, at)));
  target.at_least = text[at] == '>';
  target.value = parse_double(place, trim(std::string_view(text).substr(at + 2)));
  for (const auto& name : metric_names()) {
    if (name == target.metric) return target;
  }
  throw with_hint(usage_error("{}: found the metric {}, expected one of {}", place,
                              quote(target.metric), fmt::join(metric_names(), ", ")),
                  did_you_mean(target.metric, metric_names()));
}

std::optional<double> metric_of(const CurvePoint& point, const std::string& metric) {
  if (metric == "p1") return point.p1;
  if (metric == "p3") return point.p3;
  if (metric == "p5") return point.p5;
  if (metric == "accuracy") return point.accuracy;
  if (metric == "auc") return point.auc;
  if (metric == "test_loss") return point.test_loss;
  if (metric == "train_loss") return point.train_loss;
  return std::nullopt;
}

bool reached(const Target& target, double value) {
  return target.at_least ? value >= target.value : value <= target.value;
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
