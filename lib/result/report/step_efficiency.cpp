// Steps of runs that lost workers, over those of the same runs that lost none.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

bool is_failure(const json& straggler) {
  const std::string text = straggler.get<std::string>();
  return std::ranges::any_of(std::array{"kind=fail,", "kind=return,", "kind=churn,"},
                             [&](const char* kind) { return text.starts_with(kind); });
}

// All that tells what a run does, but for failures and what they lead to.
json without_failures(const json& result) {
  json config = telling_options(result);
  for (const char* const key : {"straggler", "detect", "on_loss", "restart_time", "checkpoint_at",
                                "checkpoint_every", "checkpoint_time"}) {
    config.erase(key);
  }
  json stragglers = json::array();
  for (const json& each : result.value("stragglers", json::array())) {
    if (!is_failure(each)) stragglers.push_back(each);
  }
  return {config, config_value(result, "seed"), stragglers};
}

double steps_per_s(const json& result) {
  const json& summary = result["summary"];
  return summary["updates"].get<double>() / summary["elapsed_s"].get<double>();
}

bool made_steps(const json& result) {
  return result["summary"]["updates"].get<double>() > 0 &&
         result["summary"]["elapsed_s"].get<double>() > 0;
}

}  // namespace

void add_step_efficiency(std::vector<LoadedResult>& results) {
  const auto lost_any = [](const LoadedResult& each) { return each.json.contains("survival"); };
  if (std::ranges::none_of(results, lost_any)) return;
  std::vector<std::pair<json, const json*>> whole;
  for (const LoadedResult& each : results) {
    if (!lost_any(each) && made_steps(each.json)) {
      whole.emplace_back(without_failures(each.json), &each.json);
    }
  }
  for (LoadedResult& each : results) {
    if (!lost_any(each) || !made_steps(each.json)) continue;
    const json key = without_failures(each.json);
    const auto found = std::ranges::find(whole, key, &std::pair<json, const json*>::first);
    if (found == whole.end()) continue;
    each.json["survival"]["step_efficiency"] = steps_per_s(each.json) / steps_per_s(*found->second);
  }
}

}  // namespace hetsgd::report
