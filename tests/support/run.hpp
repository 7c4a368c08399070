// Runs hetsgd's training inside a test, from options as on the command line.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "core/options.hpp"
#include "training/training.hpp"

namespace hetsgd::test {

using Settings = std::vector<std::pair<std::string, std::string>>;

// Later settings replace earlier ones of the same key, except for lists (straggler), which collect.
inline Record run_training(const Settings& settings, const TrainHooks& hooks = {}) {
  std::string algorithm_name = "sgd";
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
  for (const auto& [key, value] : settings) {
    if (key == "algorithm") algorithm_name = value;
    auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == key; });
    if (found == values.end()) {
      values.emplace_back(key, std::vector{value});
    } else if (key == "straggler" || key == "target") {
      found->second.push_back(value);
    } else {
      found->second = {value};
    }
  }
  const RegisteredAlgorithm& registered = find_algorithm(algorithm_name);
  const std::shared_ptr<Algorithm> algorithm = registered.make();
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  algorithm->declare(set);
  for (const auto& [key, texts] : values) set.set(key, texts, OptionSource::flag, "--" + key);
  Training training(options, set, algorithm, registered.info);
  training.load();
  training.run(hooks);
  if (training.failure()) std::rethrow_exception(training.failure());
  return training.record();
}

// `base` with some settings replaced or added.
inline Settings with(Settings base, const Settings& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

// The losses of all recorded steps, ordered by (iteration, rank).
inline std::vector<double> step_losses(const Record& record) {
  std::vector<std::tuple<int, int, double>> steps;
  for (const auto& event : record.events) {
    if (event["type"] != "step") continue;
    steps.emplace_back(event["iteration"].get<int>(), event["rank"].get<int>(),
                       event["loss"].get<double>());
  }
  std::sort(steps.begin(), steps.end());
  std::vector<double> losses;
  for (const auto& step : steps) losses.push_back(std::get<2>(step));
  return losses;
}

inline std::vector<nlohmann::json> events_of(const Record& record, const std::string& type) {
  std::vector<nlohmann::json> found;
  for (const auto& event : record.events) {
    if (event["type"] == type) found.push_back(event);
  }
  return found;
}

inline std::vector<nlohmann::json> merges(const Record& record) {
  return events_of(record, "merge");
}

}  // namespace hetsgd::test
