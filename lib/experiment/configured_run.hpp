// A run described by settings rather than by a command line: what experiments of many runs are made
// of; and the options of all algorithms and models, for readers of settings that choose none: which
// keys are known at all, and whose they are.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/non_copyable.hpp"
#include "core/options.hpp"
#include "training/training.hpp"

namespace hetsgd {

// An option that was given. Algorithms that do not know it run without it.
struct Setting {
  std::string name;
  nlohmann::json value;
  OptionSource source = OptionSource::flag;
  std::string place;
};

// The value as the option takes it: of a list for an option of one value the last one counts, as on
// the command line. An empty list stays what it is, which such an option refuses.
nlohmann::json fitting(const nlohmann::json& value, const Option& option);

// Owns what a RunSpec refers to. The set of options refers to the options, so it stays where it was
// made.
class ConfiguredRun : NonCopyable {
 public:
  // Errors: usage (unknown algorithm, a value that an option does not take).
  ConfiguredRun(const std::string& algorithm, const std::vector<Setting>& settings);

  void set(const Setting& setting);
  RunSpec spec() const { return {options_, set_, algorithm_, info_}; }
  TrainOptions& options() { return options_; }

 private:
  TrainOptions options_;
  OptionSet set_;
  AlgorithmInfo info_;
  std::shared_ptr<Algorithm> algorithm_;
};

// The configuration in a result, which somebody else may have written. It decides what a run
// computes, but neither what it writes nor whether it replaces files: keys of options that are no
// part of a configuration (Option::in_config) are left out, with a warning. `path` names the result
// in it.
nlohmann::json config_of_result(const nlohmann::json& result, const std::string& path);

// The `config` of a configuration file: the document itself, or that of a result. Errors: data,
// usage.
nlohmann::json load_config(const std::string& path);

// Options of an algorithm or a model but not of every run.
struct ForeignOption {
  std::string owner;
  Option option;  // for its declaration: the value's owner is gone
};
std::vector<ForeignOption> options_of_all_algorithms();
std::vector<ForeignOption> options_of_all_models();
// Whose option it is (its flag or its key), "adaptive, elastic"; "": nobody's.
std::string owners_of(const std::vector<ForeignOption>& all, const std::string& option);
// A key of a configuration file that is no option of `set`: the error, with the nearest one.
Error unknown_key(const OptionSet& set, const std::string& key, const std::string& place);

}  // namespace hetsgd
