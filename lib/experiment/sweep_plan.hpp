// Which runs a sweep consists of, and what each of them is called.
//
//   specification ─> trials of every tuned cell ─> a choice per cell ─> final runs
//
// A cell is a setup with a case. Its candidates are the points of a search space, without those
// options that its algorithm does not have; points that thereby become the same are one candidate.
// Each candidate is run with every seed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiment/sweep_spec.hpp"

namespace hetsgd {

enum class SweepStage { tuning, final };
std::string to_string(SweepStage stage);

// One point of a cell.
struct Candidate {
  std::vector<Setting> point;         // the options that the algorithm knows
  std::uint64_t identity = 0;         // of all settings but the seed
  bool is_virtual = true;             // its time is simulated
  nlohmann::json parameters() const;  // {option: value}
};

// One run. 64 bits name it: among a million runs, two have the same name with a chance of 3e-8.
struct PlannedRun {
  std::uint64_t id = 0;
  std::uint64_t seed = 0;
  std::uint32_t cell = 0;       // place in SweepSpec::cells
  std::uint32_t candidate = 0;  // place among those of the cell and stage
  SweepStage stage = SweepStage::final;

  std::string name() const;  // 16 hexadecimal digits
};

// The decision of each cell's tuning, in the order of the cells. None: it is not tuned.
using Choices = std::vector<std::optional<std::vector<Setting>>>;

inline constexpr double kMostRuns = 1e6;  // that are planned without being asked for

class SweepPlan {
 public:
  // Resolves the options of every trial, so that mistakes show before anything runs. Errors: usage,
  // device; more than kMostRuns runs, unless `any_number`.
  SweepPlan(const SweepSpec& spec, bool any_number);

  const SweepSpec& spec() const { return spec_; }
  bool is_tuned(std::size_t cell) const;
  const std::vector<Candidate>& candidates(SweepStage stage, std::size_t cell) const;
  const Candidate& candidate(const PlannedRun& run) const;

  // In the order in which they should run.
  const std::vector<PlannedRun>& trials() const { return trials_; }
  // Every cell's final runs. What `rate_from` refers to is among the choices.
  const std::vector<PlannedRun>& plan_final_runs(const Choices& choices);
  const std::vector<PlannedRun>& final_runs() const { return final_runs_; }
  // The same number of runs, with options as they are before the tuning.
  std::vector<PlannedRun> preview_final_runs() const { return runs_of(SweepStage::final); }
  // The settings tuned for the cell, or taken over from another; none: nothing.
  const std::optional<std::vector<Setting>>& choice(std::size_t cell) const {
    return choices_[cell];
  }
  // How many there will be, by the specification alone: an upper bound.
  double most_runs() const;

  // All that is given to the run, its seed included.
  std::vector<Setting> settings(const PlannedRun& run) const;

 private:
  std::vector<Setting> base_settings(SweepStage stage, std::size_t cell) const;
  std::vector<Candidate> resolve_all(SweepStage stage, std::size_t cell) const;
  Candidate resolve(const std::vector<Setting>& base, std::vector<Setting> point) const;
  std::vector<PlannedRun> runs_of(SweepStage stage) const;
  std::vector<Setting> tuned_settings(std::size_t cell, const Choices& choices) const;

  const SweepSpec& spec_;
  Choices choices_;
  std::vector<std::vector<Candidate>> candidates_[2];  // by stage, by cell
  std::vector<PlannedRun> trials_, final_runs_;
};

// The algorithm that settings name.
std::string algorithm_of(const std::vector<Setting>& settings);
// The arguments of `hetsgd` for a run with these settings, without its output.
std::vector<std::string> train_arguments(const std::vector<Setting>& settings);

}  // namespace hetsgd
