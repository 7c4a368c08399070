// The specification of a sweep, which determines its runs. README.md of this folder shows one;
// scripts/hetsgd/schemas/sweep.json has every key.
//
//   file ─> read_sweep_spec ─> SweepSpec ─> SweepPlan (sweep_plan.hpp) ─> Sweep (sweep.hpp)
//
// Everything that can be checked without the data is checked here; errors name file and line.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"
#include "experiment/configured_run.hpp"
#include "experiment/search_space.hpp"
#include "experiment/tuning.hpp"

namespace hetsgd {

// The trials of a setup, which choose between the points of a space for each case.
struct TuningSpec {
  std::vector<Setting> settings;     // settings of trials that differ from final runs
  std::vector<std::uint64_t> seeds;  // at least one
  // The target on the held-out rows, where they are easier or harder than the test rows; none: that
  // of the goal
  std::optional<double> target = {};
  SearchSpace space;
};

// A machine, or a workload.
struct SetupSpec {
  std::string name = {};  // "": the only one
  std::vector<Setting> settings = {};
  std::optional<Goal> goal = {};
  std::optional<TuningSpec> tuning = {};

  // Trials are judged by the goal, with the target of the tuning. There is a goal.
  Goal tuning_goal() const;
};

// Takes the learning rate that was tuned for another case, multiplied by a factor.
struct RateFrom {
  std::string setup;  // "": the case's own
  std::string case_name;
  double factor = 1;
  std::string place;
};

// A method.
struct CaseSpec {
  std::string name = {};  // "": the only one
  std::vector<Setting> settings = {};
  bool tuning = true;
  std::optional<RateFrom> rate_from = {};
};

// One combination of a setup and a case, as indices into the specification.
struct SweepCell {
  std::size_t setup = 0, method = 0;
};

struct SweepSpec {
  nlohmann::json written;  // the document without replacements
  std::string path, name;
  std::vector<std::uint64_t> seeds;
  std::optional<Seconds> max_wall;
  bool interleave = false;
  std::string launch;  // launcher of runs: "mpirun -n {ranks}"; "": none
  std::vector<Setting> settings;
  std::vector<SetupSpec> setups;  // at least one
  std::vector<CaseSpec> cases;    // at least one
  SearchSpace space;
  std::vector<SweepCell> cells;  // the product restricted by `only`, in file order

  const SetupSpec& setup_of(std::size_t cell) const { return setups[cells[cell].setup]; }
  const CaseSpec& case_of(std::size_t cell) const { return cases[cells[cell].method]; }
  std::string title(std::size_t cell) const;  // "adasum-4, ssgd full", for messages
};

// Reads a specification. Loads the plugins that it names, because their options may be used in it.
// Throws Error(data) or Error(usage) with file and line.
SweepSpec read_sweep_spec(const std::string& path);

// The JSON Schema (draft 7) of the specification.
std::string_view sweep_schema();

}  // namespace hetsgd
