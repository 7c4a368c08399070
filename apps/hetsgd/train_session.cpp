#include "train_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "command.hpp"
#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/tuning.hpp"
#include "ranks.hpp"
#include "result/validate.hpp"
#include "train_run.hpp"
#include "training/estimate.hpp"
#include "training/training.hpp"

namespace hetsgd {
namespace {

std::string key_of(const std::string& flag) {
  std::string key = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

// Whether a flag that was given leaves the option `key` of a configuration no place.
bool flag_excludes(const OptionSet& set, const std::string& key) {
  struct Exclusion {
    const char* key;
    const char* flag;
    const char* goes_with;  // the flag's only value that the key goes with; "": none does
  };
  static constexpr Exclusion kExclusions[] = {{"max_samples", "epochs", ""},
                                              {"epochs", "max_samples", ""},
                                              {"test", "validation", ""},
                                              {"validation", "test", ""},
                                              {"charge", "cluster", "sim"},
                                              {"service_rank", "cluster", "mpi"},
                                              {"decoupled_weight_decay", "optimizer", "adam"}};
  return std::any_of(std::begin(kExclusions), std::end(kExclusions), [&](const Exclusion& each) {
    const Option& flag = *set.find(each.flag);
    return key == each.key && flag.source == OptionSource::flag && flag.to_json() != each.goes_with;
  });
}

bool is_option_of(const std::string& algorithm, const std::string& key) {
  const std::vector<ForeignOption> all = options_of_all_algorithms();
  return std::any_of(all.begin(), all.end(), [&](const ForeignOption& foreign) {
    return foreign.algorithm == algorithm && foreign.option.name == key;
  });
}

}  // namespace

std::string owners_of(const std::string& option) {
  const std::string key = key_of(option);
  std::vector<std::string> owners;
  for (const ForeignOption& foreign : options_of_all_algorithms()) {
    if (foreign.option.name == key) owners.push_back(foreign.algorithm);
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

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
  set.group("Tuning");
  set.add("tuned", tuned_, "take the learning rate from this file of `hetsgd tune`")
      .reads_file()
      .not_in_config();
  set.group("Instead of running");
  set.add("print_config", print_config_, "print every option, its value and where it came from")
      .not_in_config();
  set.add("dry_run", dry_run_,
          "load the data and print the plan as JSON, with an estimate of memory and, from a trial "
          "of "
          "at most two mega-batches and 10 s, of time: train_s on the training clock with messages "
          "and stragglers, host_s of the host")
      .not_in_config();
}

std::string TrainSession::about_unknown(const std::string& flag) const {
  const std::string owners = owners_of(flag);
  return owners.empty() ? ""
                        : fmt::format("{} is an option of {}, not of {}", flag, owners, info_.name);
}

void TrainSession::read_config(OptionSet& set, const nlohmann::json& config,
                               const std::string& path) {
  const std::string algorithm =  // that the configuration is of
      config.contains("algorithm") && config["algorithm"].is_string() ? config["algorithm"] : "";
  std::vector<std::string> foreign, excluded;
  for (const auto& [key, value] : config.items()) {
    const bool long_key = key.size() > 60;
    const std::string place = fmt::format("{}: {}", path, long_key ? quote(key) : key);
    if (const Option* option = set.find(key)) {
      if (flag_excludes(set, key)) {
        if (option->to_json() != value) excluded.push_back(key);
        continue;
      }
      set.set_json(key, value, OptionSource::config_file, place);
      continue;
    }
    if (algorithm != info_.name && is_option_of(algorithm, key)) {
      foreign.push_back(key);
      continue;
    }
    const std::string owners = owners_of(key);
    if (owners.empty()) throw unknown_key(set, key, place);
    throw with_hint(usage_error("{}: unknown option", place),
                    fmt::format("{} is an option of {}, not of {}", key, owners, info_.name));
  }
  if (!foreign.empty()) {
    left_out_.push_back(fmt::format("{}: left out, as options of {} that {} does not have: {}",
                                    path, algorithm, info_.name, fmt::join(foreign, ", ")));
  }
  if (!excluded.empty()) {
    left_out_.push_back(
        fmt::format("{}: left out, as they do not go with the flags that were given: {}", path,
                    fmt::join(excluded, ", ")));
  }
}

Error unknown_key(const OptionSet& set, const std::string& key, const std::string& place) {
  std::vector<std::string> known;
  for (const Option& option : set.options()) known.push_back(option.name);
  const auto best = nearest(key, known);
  return with_hint(
      usage_error("{}: unknown option", place),
      best ? fmt::format("did you mean {}?", *best) : "hetsgd train --print-config lists the keys");
}

nlohmann::json read_first(OptionSet& first, const std::string& config_path,
                          const std::vector<std::string>& arguments) {
  scan_arguments(first, arguments);
  first.read_environment();
  nlohmann::json config = nlohmann::json::object();
  if (config_path.empty()) return config;
  config = load_config(config_path);
  for (const Option& option : std::vector<Option>(first.options())) {
    if (!config.contains(option.name)) continue;
    first.set_json(option.name, config[option.name], OptionSource::config_file,
                   config_path + ": " + option.name);
  }
  return config;
}

void read_environment(OptionSet& set) {
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

void TrainSession::take_tuned(OptionSet& set) {
  if (tuned_.empty()) return;
  const Option& tuned = *set.find("tuned");
  const Option& rate = *set.find("learning_rate");
  if (rate.source != OptionSource::default_value && rate.source >= tuned.source) {
    throw usage_error("{}: found beside {}, which names the learning rate, expected one of the two",
                      rate.place, tuned.place);
  }
  const nlohmann::json config = Training(options_, set, algorithm_, info_).record().config;
  tuning_ = tuning_of_run(tuning_of(read_tuning(tuned_)), config,
                          read_text_file(tuned_, {.noun = "file"}, kMostJsonBytes), tuned_);
  set.set_json("learning_rate", tuning_["learning_rate"], tuned.source,
               fmt::format("{} {}", tuned.place, tuned_));
  if (!tuning_["differs"].empty()) {
    warn("{}: the learning rate was tuned under other options: {}", tuned_,
         fmt::join(tuning_["differs"].get<std::vector<std::string>>(), ", "));
  }
}

int TrainSession::print_plan(const OptionSet& set) {
  const nlohmann::json plan = plan_of_run(options_, set, algorithm_, info_);
  if (speaks(options_)) fmt::print("{}\n", plan.dump(2));
  return 0;
}

int TrainSession::run(OptionSet& set, const std::vector<std::string>& arguments) {
  if (speaks(options_) && !options_.quiet) {
    for (const std::string& text : left_out_) note("{}", text);
  }
  take_tuned(set);
  if (print_config_) {
    if (speaks(options_)) print_text(set.describe());
    return 0;
  }
  if (dry_run_) return print_plan(set);
  TrainOptions options = options_;
  return run_training(options, set, algorithm_, info_, {arguments, options.redact, tuning_});
}

}  // namespace hetsgd
