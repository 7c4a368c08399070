// What train and rerun share: the options of a run and of its algorithm, and carrying it out.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "core/error.hpp"
#include "core/options.hpp"
#include "experiment/configured_run.hpp"
#include "result/result.hpp"
#include "training/training.hpp"

namespace hetsgd {

class TrainSession {
 public:
  // Must come before declare. Errors: usage (unknown algorithm or model).
  void choose(const std::string& algorithm, const std::string& model);
  // The options of every run, of this algorithm and model, and of the command itself.
  void declare(OptionSet& set);
  // Where a repeated run's learning rate came from (the `tuning` of its result).
  void set_tuning(nlohmann::json tuning) { tuning_ = std::move(tuning); }
  // "--delta is an option of adaptive, not of ssgd"; "": of none.
  std::string about_unknown(const std::string& flag) const;

  // Sets every key of `config`, which stands in `path`. Left out, with a note: the options of its
  // own algorithm and of models where another one was chosen, and what a flag excludes (--epochs:
  // max_samples).
  // Errors: usage, an unknown key named with the nearest one.
  void read_config(OptionSet& set, const nlohmann::json& config, const std::string& path);
  // Runs what the options say (or prints the plan). `arguments` go into the result. Returns the
  // exit code.
  int run(OptionSet& set, const std::vector<std::string>& arguments);

  const TrainOptions& options() const { return options_; }
  // As Command::runs_together.
  bool runs_together() const { return hetsgd::runs_together(options_.cluster); }

 private:
  // Takes the learning rate from the file of --tuned. Errors: data, usage.
  void take_tuned(OptionSet& set);
  int print_plan(const OptionSet& set);
  RunSpec spec(const OptionSet& set) const { return {options_, set, algorithm_, info_}; }

  TrainOptions options_;
  std::string tuned_;                  // --tuned
  nlohmann::json tuning_ = nullptr;    // the result's
  std::vector<std::string> left_out_;  // what read_config has to tell
  AlgorithmInfo info_;
  std::shared_ptr<Algorithm> algorithm_;
  bool print_config_ = false;
  bool dry_run_ = false;
};

// Runs and writes the result as the options say, with what `result` adds to it, and shows its progress.
// Errors: those of the run, after its result was written.
//
// Exit codes: 0; 3 a target was missed under --require-target; 6 --time-limit; 128 + signal. A run
// that diverged is a result like any other: 0 and a warning.
int run_training(const RunSpec& spec, const ResultOptions& result);

// Loads the plugins that --plugin names among `arguments`, or the environment.
void load_plugins(const std::vector<std::string>& arguments);
// Loads the plugins of the run in `result`, which stands in `path`, or those that the option "plugin"
// of `first` names: with a warning where these are others. Errors: a file that is missing or is not
// that of the run.
void load_plugins_again(const OptionSet& first, const nlohmann::json& result,
                        const std::string& path);

// Reads the options that decide which other options there are (flag, environment, file), and loads
// the plugins that the option "plugin" of `first` names, whose algorithms have options too.
// `config_path` is the variable of the option "config" in `first`. Returns the configuration file's
// content; {}: none was named.
nlohmann::json read_first(OptionSet& first, const std::string& config_path,
                          const std::vector<std::string>& arguments);

// Reads the environment, with a warning for every HETSGD_ variable that no part of hetsgd reads.
void read_environment(OptionSet& set);

}  // namespace hetsgd
