// A run described by settings rather than by a command line, as experiments of many runs need it.
// Also the options of all algorithms and models, for code that reads settings before an algorithm
// is chosen. They tell all known keys, and the algorithm or model of each.
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

// An option that was set. Algorithms that do not know it run without it.
struct Setting {
  std::string name;
  nlohmann::json value;
  OptionSource source = OptionSource::flag;
  std::string place;
};

// The value in the form that the option takes. If the option takes one value, the last of a list
// counts, as on the command line. An empty list is left unchanged, and such an option refuses it.
nlohmann::json fitting(const nlohmann::json& value, const Option& option);

// Owns the objects that a RunSpec refers to. It cannot be moved, because the option set refers to
// the options.
class ConfiguredRun : NonCopyable {
 public:
  // Throws Error(usage) for an unknown algorithm or a value that an option does not take.
  ConfiguredRun(const std::string& algorithm, const std::vector<Setting>& settings);

  // Whether the number of workers is known here; a launcher may decide it.
  bool knows_workers() const;
  RunSpec spec() const { return {options_, set_, algorithm_, info_}; }
  TrainOptions& options() { return options_; }

 private:
  void set(const Setting& setting);

  TrainOptions options_;
  OptionSet set_;
  AlgorithmInfo info_;
  std::shared_ptr<Algorithm> algorithm_;
};

// The configuration in a result, which may come from an untrusted source. It decides what a run
// computes, but neither what it writes nor whether it replaces files. So keys of options that are
// no part of a configuration (Option::in_config) are left out, with a warning that names `path`.
nlohmann::json config_of_result(const nlohmann::json& result, const std::string& path);

// The `config` of a configuration file: the document itself, or that of a result. Throws
// Error(data) if it cannot be read, Error(usage) if it is no configuration.
nlohmann::json load_config(const std::string& path);

// Options of an algorithm or a model but not of every run.
struct ForeignOption {
  std::string owner;
  Option option;  // for its declaration only, because the value no longer exists
};
std::vector<ForeignOption> options_of_all_algorithms();
std::vector<ForeignOption> options_of_all_models();
// The algorithms or models that have the option (given by flag or key), such as "adaptive,
// elastic"; "" if none has.
std::string owners_of(const std::vector<ForeignOption>& all, const std::string& option);
// The error for a key of a configuration file that is no option of `set`. It suggests the nearest
// option.
Error unknown_key(const OptionSet& set, const std::string& key, const std::string& place);

}  // namespace hetsgd
