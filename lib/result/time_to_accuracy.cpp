#include "result/time_to_accuracy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace hetsgd {

TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, const Target& target) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double worst = target.at_least ? -kInfinity : kInfinity;
  TimeToAccuracy result;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (!result.first && reached(target, curve[i].value)) {
      result.first = curve[i];
      result.first_evaluation = i;
      result.resolution_s = i > 0 ? curve[i].time_s - curve[i - 1].time_s : 0;
    }
    if (result.smoothed || i + 1 < kSmoothingWindow) continue;
    std::array<double, kSmoothingWindow> window;
    for (std::size_t j = 0; j < kSmoothingWindow; ++j) {
      const double x = curve[i - j].value;
      window[j] = std::isnan(x) ? worst : x;
    }
    std::sort(window.begin(), window.end());
    const double median = window[kSmoothingWindow / 2];
    if (reached(target, median)) {
      result.smoothed = curve[i];
      result.smoothed->value = median;
    }
  }
  return result;
}

std::vector<Evaluation> evaluations_of(const nlohmann::json& result, const std::string& metric) {
  std::vector<Evaluation> all;
  for (const nlohmann::json& point : result["curve"]) {
    if (!point.contains(metric) || !point[metric].is_number()) continue;
    Evaluation evaluation{point["time_s"], point["samples_count"], point["updates"], point[metric]};
    if (point.contains("prepare_s")) evaluation.prepare_s = point["prepare_s"].get<double>();
    if (point.contains("wall_s")) evaluation.wall_s = point["wall_s"].get<double>();
    all.push_back(evaluation);
  }
  return all;
}

}  // namespace hetsgd
