#include "train_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "result/validate.hpp"
#include "train_run.hpp"
#include "training/training.hpp"

namespace hetsgd {
namespace {

// Algorithms that have `option`, as texts such as "adaptive, elastic".
std::string owners_of(const std::string& name) {
  std::vector<std::string> owners;
  for (const ForeignOption& foreign : options_of_all_algorithms()) {
    if (foreign.option.name == name) owners.push_back(foreign.algorithm);
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

std::string key_of(const std::string& flag) {
  std::string key = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

}  // namespace

std::vector<ForeignOption> options_of_all_algorithms() {
  std::vector<ForeignOption> all;
  for (const RegisteredAlgorithm& registered : algorithms()) {
    const std::unique_ptr<Algorithm> algorithm = registered.make();
    OptionSet set;
    algorithm->declare(set);
    for (const Option& option : set.options()) all.push_back({registered.info.name, option});
  }
  return all;
}

nlohmann::json load_config(const std::string& path) {
  nlohmann::json document = read_json(path);
  if (document.is_object() && document.contains("config") && document.contains("schema_version")) {
    document = document["config"];
  }
  if (!document.is_object()) throw usage_error("{}: expected a JSON object of options", path);
  return document;
}

void TrainSession::choose_algorithm(const std::string& name) {
  const RegisteredAlgorithm& registered = find_algorithm(name);
  info_ = registered.info;
  algorithm_ = registered.make();
  options_.algorithm = name;
}

void TrainSession::declare(OptionSet& set) {
  options_.declare(set);
  set.group(fmt::format("Options of {}", info_.name));
  algorithm_->declare(set);
  set.group("Instead of running");
  set.add("print_config", print_config_, "print every option, its value and where it came from")
      .not_in_config();
  set.add("dry_run", dry_run_, "load the data and print the plan as JSON, with an estimate")
      .not_in_config();
}

std::string TrainSession::about_unknown(const std::string& flag) const {
  const std::string owners = owners_of(key_of(flag));
  return owners.empty() ? ""
                        : fmt::format("{} is an option of {}, not of {}", flag, owners, info_.name);
}

void TrainSession::read_config(OptionSet& set, const nlohmann::json& config,
                               const std::string& path) const {
  for (const auto& [key, value] : config.items()) {
    const std::string place = fmt::format("{}: {}", path, key);
    if (set.find(key)) {
      set.set_json(key, value, OptionSource::config_file, place);
      continue;
    }
    std::vector<std::string> known;
    for (const Option& option : set.options()) known.push_back(option.name);
    const std::string owners = owners_of(key);
    const auto best = nearest(key, known);
    throw with_hint(usage_error("{}: unknown option", place),
                    !owners.empty()
                        ? fmt::format("{} is an option of {}, not of {}", key, owners, info_.name)
                    : best ? fmt::format("did you mean {}?", *best)
                           : "hetsgd train --print-config lists the keys");
  }
}

void TrainSession::read_environment(OptionSet& set) const {
  std::vector<std::string> known = {"HETSGD_CACHE_DIR", "HETSGD_DATA_DIR"};
  for (const ForeignOption& foreign : options_of_all_algorithms()) {
    known.push_back(foreign.option.environment());
  }
  for (const std::string& name : set.read_environment()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::vector<std::string> candidates = known;
    for (const Option& option : set.options()) candidates.push_back(option.environment());
    const auto best = nearest(name, candidates);
    warn("{}: no option has this name{}", name,
         best ? fmt::format("; did you mean {}?", *best) : "");
  }
}

int TrainSession::print_plan(const OptionSet& set) {
  Training training(options_, set, algorithm_, info_);
  training.load();
  const nlohmann::json plan = {{"config", training.record().config},
                               {"estimate", training.estimate()}};
  fmt::print("{}\n", plan.dump(2));
  return 0;
}

int TrainSession::run(const OptionSet& set, const std::vector<std::string>& arguments) {
  if (print_config_) {
    fmt::print("{}", set.describe());
    return 0;
  }
  if (dry_run_) return print_plan(set);
  TrainOptions options = options_;
  return run_training(options, set, algorithm_, info_, arguments);
}

}  // namespace hetsgd
