// A benchmark: one specification of a sweep as the rules, and all methods that were run by it.
//
//   v1.toml ─┬─> hetsgd sweep v1.toml -o F         the methods of record: its cases
//            └─> an entry: the same with other cases ─> hetsgd sweep entry.json -o F
//   F ─> read_benchmark ─> scores (result/performance_profile.hpp) ─> table, JSON
//
// A problem is a setup with its target, a method a case. experiments/benchmark/README.md has the
// rules that people read; what can be checked of them is checked here.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/sweep_spec.hpp"
#include "result/performance_profile.hpp"
#include "result/table.hpp"

namespace hetsgd {

struct BenchmarkProblem {
  std::string name;
  Target target;
  std::set<std::string> data;  // content hashes of the training rows; more than one is a note
  double best_time_s = 0;      // infinity: nobody reached the target
};

struct BenchmarkMethod {
  std::string name, algorithm;
  std::string sweep;      // that ran it
  bool is_entry = false;  // not one of the specification's own cases
  // The cost of its tuning on all problems, and on how many the best rate was an end of the grid.
  std::uint64_t tuning_trials = 0, tuning_samples = 0;
  double tuning_train_s = 0;
  std::size_t edges = 0;
  std::vector<std::size_t> reached = {};  // runs that did, by problem
  MethodScore score = {};
};

struct Benchmark {
  std::string name;
  std::size_t seeds = 0;
  std::vector<BenchmarkProblem> problems;
  std::vector<BenchmarkMethod> methods;  // those of which every run is there; by rank, then name
  std::set<std::string> revisions;       // of the program that ran them
  std::vector<std::string> notes;        // what was left out, and why; what may make it unequal
};

// Errors: usage, a specification that is no benchmark: a setup without a target, methods that have
// not all setups, parameters or options fixed by it in a case.
void check_benchmark(const SweepSpec& spec);

// Why `entry`, the specification of a sweep, is no entry to the benchmark `spec`: its first
// difference that is no method, or an option of a case that belongs to the rules. "": it is one.
std::string why_no_entry(const SweepSpec& spec, const nlohmann::json& entry);

// All methods that sweeps in this folder have run by the specification. Errors: as
// check_benchmark; data (no folder, a broken result); usage (no method has all its runs).
Benchmark read_benchmark(const SweepSpec& spec, const std::string& folder);

// The document (standing_schema.json). Infinity stands as null, with the reason beside it.
nlohmann::json standing_json(const Benchmark& benchmark);
std::string_view standing_schema();
// A row per method: rank, score, problems solved, ratio to the best on each problem, edges.
Table standing_table(const Benchmark& benchmark);
// That and what its columns mean. `format`: text or markdown.
std::string standing_report(const Benchmark& benchmark, TableFormat format);

}  // namespace hetsgd
