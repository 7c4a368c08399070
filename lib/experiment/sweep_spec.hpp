// The specification of a sweep: which runs there are to be. README.md of this folder shows one;
// sweep_schema.json has every key.
//
//   file ─> read_sweep_spec ─> SweepSpec ─> Plan (sweep_plan.hpp) ─> Sweep (sweep.hpp)
//
// Everything that can be judged without looking at the data is judged here, with file and line.
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

// The trials of a setup: they decide between the points of a space, for each case alike.
struct TuningSpec {
  std::vector<Setting> settings;     // what trials have otherwise than the final runs
  std::vector<std::uint64_t> seeds;  // at least one
  SearchSpace space;
};

// A machine, or a workload.
struct SetupSpec {
  std::string name = {};  // "": the only one
  std::vector<Setting> settings = {};
  std::optional<Goal> goal = {};
  std::optional<TuningSpec> tuning = {};
};

// Takes the learning rate that was tuned for another case, times a factor.
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

// One combination of the product of setups and cases, by their places in the specification.
struct SweepCell {
  std::size_t setup = 0, method = 0;
};

struct SweepSpec {
  nlohmann::json written;  // the file as it is
  std::string path, name;
  std::vector<std::uint64_t> seeds;
  std::optional<Seconds> max_wall;
  bool interleave = false;
  std::string launch;  // what runs are started with: "mpirun -n {ranks}"; "": nothing
  std::vector<Setting> settings;
  std::vector<SetupSpec> setups;  // at least one
  std::vector<CaseSpec> cases;    // at least one
  SearchSpace space;
  std::vector<SweepCell> cells;  // what `only` leaves of the product, in the order of the file

  const SetupSpec& setup_of(std::size_t cell) const { return setups[cells[cell].setup]; }
  const CaseSpec& case_of(std::size_t cell) const { return cases[cells[cell].method]; }
  std::string title(std::size_t cell) const;  // "adasum-4, ssgd full", for messages
};

// Loads the plugins that it names, because their options are options too. Errors: data, usage, with
// file and line.
SweepSpec read_sweep_spec(const std::string& path);

// The JSON Schema (draft 7) of the specification.
std::string_view sweep_schema();

}  // namespace hetsgd
