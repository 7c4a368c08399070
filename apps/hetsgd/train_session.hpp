// What train and rerun share: the options of a run and of its algorithm, and carrying it out.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "core/options.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

class TrainSession {
 public:
  // Must come before declare. Errors: usage (unknown algorithm).
  void choose_algorithm(const std::string& name);
  // The options of every run, of this algorithm, and of the command itself.
  void declare(OptionSet& set);
  // "--delta is an option of adaptive, not of ssgd"; "": of none.
  std::string about_unknown(const std::string& flag) const;

  // Sets every key of `config`, which stands in `path`. Errors: usage, an unknown key named with
  // the nearest one.
  void read_config(OptionSet& set, const nlohmann::json& config, const std::string& path) const;
  // Reads the environment, with a warning for every HETSGD_ variable that no part of hetsgd reads.
  void read_environment(OptionSet& set) const;

  // Runs what the options say (or prints the plan). `arguments` go into the result. Returns the
  // exit code.
  int run(const OptionSet& set, const std::vector<std::string>& arguments);

  const TrainOptions& options() const { return options_; }

 private:
  int print_plan(const OptionSet& set);

  TrainOptions options_;
  AlgorithmInfo info_;
  std::shared_ptr<Algorithm> algorithm_;
  bool print_config_ = false;
  bool dry_run_ = false;
};

// The `config` of a configuration file: the document itself, or that of a result. Errors: data,
// usage.
nlohmann::json load_config(const std::string& path);

// The options of every algorithm but of no run, as {algorithm, option}.
struct ForeignOption {
  std::string algorithm;
  Option option;
};
std::vector<ForeignOption> options_of_all_algorithms();

}  // namespace hetsgd
