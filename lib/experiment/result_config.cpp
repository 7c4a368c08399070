#include "experiment/result_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/logging.hpp"
#include "core/options.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

nlohmann::json config_of_result(const nlohmann::json& result, const std::string& path) {
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  nlohmann::json config = nlohmann::json::object();
  std::vector<std::string> left_out;
  for (const auto& [key, value] : result["config"].items()) {
    const Option* const option = set.find(key);
    if (option == nullptr || option->in_config) {
      config[key] = value;
    } else {
      left_out.push_back(key);
    }
  }
  if (!left_out.empty()) {
    warn("{}: left out, as a result does not decide what a run writes and reports: {}", path,
         fmt::join(left_out, ", "));
  }
  return config;
}

}  // namespace hetsgd
