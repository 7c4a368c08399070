// The common part of train and rerun: the options of a run and of its algorithm, and its execution.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/options.hpp"
#include "experiment/configured_run.hpp"
#include "result/result.hpp"
#include "training/training.hpp"

namespace hetsgd {

class TrainSession {
 public:
  // Chooses algorithm and model; to be called before declare(). Throws Error(usage) for an unknown
  // algorithm or model.
  void choose(const std::string& algorithm, const std::string& model);
  // Declares the options of every run, of this algorithm and model, and of the command itself.
  void declare(OptionSet& set);
  // Sets the origin of a repeated run's learning rate (the `tuning` of its result).
  void set_tuning(nlohmann::json tuning) { tuning_ = std::move(tuning); }
  // Cuts the run where another one was cut, for its reasons (by samples).
  void repeat_segments(std::map<std::uint64_t, std::string> reasons) {
    options_.repeated_segments = std::move(reasons);
  }
  // "--delta is an option of adaptive, not of ssgd"; "" if no algorithm has it.
  std::string about_unknown(const std::string& flag) const;

  // Sets every key of `config`, which was read from `path`. It leaves out, with a note, the options
  // of algorithms and models that were not chosen, and options that a flag excludes (--epochs
  // excludes max_samples). Throws Error(usage) for an unknown key, suggesting the nearest one.
  void read_config(OptionSet& set, const nlohmann::json& config, const std::string& path);
  // Carries out the run of the options, or prints its plan. `arguments` are written to the result.
  // Returns the exit code.
  int run(OptionSet& set, const std::vector<std::string>& arguments);

  const TrainOptions& options() const { return options_; }
  // As Command::runs_together.
  bool runs_together() const { return hetsgd::runs_together(options_.cluster); }

 private:
  // Takes the learning rate from the file of --tuned. Throws Error(data) if the file is broken,
  // Error(usage) if it does not fit this run.
  void take_tuned(OptionSet& set);
  int print_plan(const OptionSet& set);
  RunSpec spec(const OptionSet& set) const { return {options_, set, algorithm_, info_}; }

  TrainOptions options_;
  std::string tuned_;                  // --tuned
  nlohmann::json tuning_ = nullptr;    // the `tuning` of the result
  std::vector<std::string> left_out_;  // options that read_config() left out
  AlgorithmInfo info_;
  std::shared_ptr<Algorithm> algorithm_;
  bool print_config_ = false;
  bool dry_run_ = false;
};

// The base of train and rerun. The algorithm and the model determine the options. So their names,
// and plugins that may contain them, are read first.
class SessionCommand : public Command {
 public:
  void look_ahead(const std::vector<std::string>& arguments) final;
  bool runs_together() const final { return session_.runs_together(); }
  std::string about_unknown(const std::string& flag) const final {
    return session_.about_unknown(flag);
  }
  Seconds peer_timeout() const final { return session_.options().peer_timeout; }

 protected:
  // Sets the options "plugin", "algorithm" and "model" of `first`, and loads the plugins.
  virtual void read_first(OptionSet& first, const std::vector<std::string>& arguments) = 0;

  TrainSession session_;
};

// Carries out the run, shows its progress, and writes its result with the additions in `result`.
// Throws what the run throws, after its result was written.
//
// Returns the exit code of the run (experiment/run.hpp).
int run_training(const RunSpec& spec, const ResultOptions& result);

// Loads the plugins that --plugin names among `arguments`, or the environment.
void load_plugins(const std::vector<std::string>& arguments);
// Loads the plugins of the run in `result`, which was read from `path`. If `first` has the option
// "plugin" by flag, it loads those instead, with a warning if they differ. Throws what
// load_plugin() throws if a file is missing or differs from that of the run.
void load_plugins_again(const OptionSet& first, const nlohmann::json& result,
                        const std::string& path);

// Reads the options that determine which other options exist (flag, environment, file). Loads the
// plugins of the option "plugin" of `first`, because their algorithms add options. `config_path` is
// the variable of the option "config" in `first`. Returns the content of the configuration file, or
// {} if none was named.
nlohmann::json read_first(OptionSet& first, const std::string& config_path,
                          const std::vector<std::string>& arguments);

// Reads the environment, with a warning for every HETSGD_ variable that no part of hetsgd reads.
void read_environment(OptionSet& set);

}  // namespace hetsgd
