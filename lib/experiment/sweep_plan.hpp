// The plan of a sweep: its runs and their names.
//
//   specification ─> trials of every tuned cell ─> a choice per cell ─> final runs
//
// A cell is a setup with a case. Its candidates are the points of a search space, without the
// options that its algorithm does not have. Points that become equal thereby are one candidate.
// Each candidate is run with every seed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/configured_run.hpp"
#include "experiment/sweep_spec.hpp"

namespace hetsgd {

enum class SweepStage { tuning, final };
std::string to_string(SweepStage stage);

// Two runs with the same identity and seed are the same run.
struct RunIdentity {
  // A hash of the options that differ from their defaults, and of those whose default has changed
  // since identities exist. It excludes the seed, and options outside of a result's config
  // (outputs, and options that depend on the host). A data file counts by its name and size, any
  // other file that is read (profiles, networks, plugins) by its content. So a folder of runs can
  // move, and options that are added later change no name.
  std::uint64_t hash = 0;
  bool is_virtual = true;     // its time is simulated
  bool needs_launch = false;  // its workers are processes, which a launcher must start
};

// Resolves the options as the run will. Throws Error(usage) or Error(device) as the run would.
RunIdentity identify(const std::vector<Setting>& settings);

// The id of the run with this identity and seed.
std::uint64_t run_id(std::uint64_t identity, std::uint64_t seed);

// One point of a cell.
struct Candidate {
  std::vector<Setting> point;  // the options that the algorithm knows
  std::uint64_t identity = 0;  // hash of all settings but the seed
  bool is_virtual = true;      // its time is simulated
};

// One run. Its name has 64 bits, so two of a million runs have the same name with a probability of
// 3e-8.
struct PlannedRun {
  std::uint64_t id = 0;
  std::uint64_t seed = 0;
  std::uint32_t cell = 0;       // index into SweepSpec::cells
  std::uint32_t candidate = 0;  // index among those of the cell and stage
  SweepStage stage = SweepStage::final;

  std::string name() const;  // 16 hexadecimal digits
};

// The settings that each cell's tuning has chosen, by cell. None: it is not tuned.
using Choices = std::vector<std::optional<std::vector<Setting>>>;

inline constexpr double kMostRuns = 1e6;  // limit without explicit consent

class SweepPlan {
 public:
  // Resolves the options of every trial, so that mistakes show before anything runs. Throws
  // Error(usage) or Error(device) as the runs would. Also throws Error(usage) for more than
  // kMostRuns runs, unless `any_number`.
  SweepPlan(const SweepSpec& spec, bool any_number);

  const SweepSpec& spec() const { return spec_; }
  bool is_tuned(std::size_t cell) const;
  const std::vector<Candidate>& candidates(SweepStage stage, std::size_t cell) const;
  const Candidate& candidate(const PlannedRun& run) const;

  // The trials in the order that they should run in.
  const std::vector<PlannedRun>& trials() const { return trials_; }
  // `best` of a tuned cell may have the smallest or largest tried value of an option. Then adds a
  // candidate beyond that value, with the ratio of the last two values, and plans its trials.
  // False: `best` is within, or as many values as `widen` of the option allows have been added.
  bool widen(std::size_t cell, std::size_t best);
  // Plans every cell's final runs. The cells that `rate_from` refers to have a choice.
  const std::vector<PlannedRun>& plan_final_runs(const Choices& choices);
  const std::vector<PlannedRun>& final_runs() const { return final_runs_; }
  // As many final runs, with the options before the tuning.
  std::vector<PlannedRun> preview_final_runs() const { return runs_of(SweepStage::final); }
  // The settings that were tuned for the cell or taken from another one; none if it has none.
  const std::optional<std::vector<Setting>>& choice(std::size_t cell) const {
    return choices_[cell];
  }

  // All settings of the run, including its seed.
  std::vector<Setting> settings(const PlannedRun& run) const;

 private:
  // An upper bound of the number of runs, by the specification alone.
  double most_runs() const;
  std::vector<Setting> base_settings(SweepStage stage, std::size_t cell) const;
  std::vector<Candidate> resolve_all(SweepStage stage, std::size_t cell);
  Candidate resolve(const std::vector<Setting>& base, std::vector<Setting> point);
  std::vector<PlannedRun> runs_of(SweepStage stage) const;
  std::vector<Setting> tuned_settings(std::size_t cell, const Choices& choices) const;

  const SweepSpec& spec_;
  Choices choices_;
  std::vector<std::vector<Candidate>> candidates_[2];  // by stage and cell
  std::vector<PlannedRun> trials_, final_runs_;
  std::set<std::string> warned_;  // warnings about methods, each once
};

// {option: value} of settings.
nlohmann::json values_of(const std::vector<Setting>& settings);
// The values that an option has in the candidates, each once.
std::vector<nlohmann::json> values_tried(const std::vector<Candidate>& candidates,
                                         const std::string& name);
// The algorithm that settings name.
std::string algorithm_of(const std::vector<Setting>& settings);
// The arguments of `hetsgd` for a run with these settings, without its output.
std::vector<std::string> train_arguments(const std::vector<Setting>& settings);

}  // namespace hetsgd
