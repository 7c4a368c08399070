// A benchmark consists of one sweep specification, which is its rules, and of all methods that were
// run by it.
//
//   v1.toml ─┬─> hetsgd sweep v1.toml -o F         the methods of record: its cases
//            └─> an entry: the same with other cases ─> hetsgd sweep entry.json -o F
//   F ─> read_benchmark ─> scores (result/performance_profile.hpp) ─> table, JSON
//
// A problem is a setup with its target, and a method is a case. experiments/benchmark/README.md
// states the rules for people. The rules that a program can check are checked here.
#pragma once

#include <array>
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

// The shares by which targets are relaxed for the scores beside the score: a ranking that changes
// with them rests on where a target happens to lie. A target of at least 0.6 becomes 0.594 by 0.01,
// one of at most 2 becomes 2.02.
inline constexpr std::array<double, 2> kRelaxed = {0.01, 0.02};

struct BenchmarkProblem {
  std::string name;
  Target target;
  std::set<std::string> data;  // content hashes of the training rows; more than one is a note
  double best_time_s = 0;      // infinity: no method reached the target
};

struct BenchmarkMethod {
  std::string name, algorithm;
  std::string sweep;      // name of the sweep that ran it
  bool is_entry = false;  // not one of the specification's own cases
  // The cost of its tuning on all problems. `edges` counts the problems whose best learning rate is
  // an end of the grid.
  std::uint64_t tuning_trials = 0, tuning_samples = 0;
  double tuning_train_s = 0;
  std::size_t edges = 0;
  std::vector<std::size_t> reached = {};  // by problem: runs that reached the target
  MethodScore score = {};
  std::array<MethodScore, kRelaxed.size()> relaxed = {};
};

struct Benchmark {
  std::string name;
  std::size_t seeds = 0;
  std::vector<BenchmarkProblem> problems;
  std::vector<BenchmarkMethod> methods;  // complete ones only; by rank, then name
  std::set<std::string> revisions;       // of the program that ran them
  std::vector<std::string> notes;        // omissions with their reasons, and unequal conditions
};

// Checks that a specification is a benchmark. Errors: usage, for a setup without a target, a method
// that lacks a setup, parameters, or an option in a case that the rules fix.
void check_benchmark(const SweepSpec& spec);

// Why the sweep specification `entry` is no entry to the benchmark `spec`, or "" if it is one. The
// reason is the first difference outside of its methods, or an option of a case that the rules fix.
std::string why_no_entry(const SweepSpec& spec, const nlohmann::json& entry);

// Reads all methods that sweeps in this folder have run by the specification. Errors: as
// check_benchmark; data (no folder, a broken result); usage (no method has all its runs).
Benchmark read_benchmark(const SweepSpec& spec, const std::string& folder);

// The document (standing_schema.json). Infinity is written as null, with the reason beside it.
nlohmann::json standing_json(const Benchmark& benchmark);
std::string_view standing_schema();
// The table has a row per method: rank, score, scores at relaxed targets, problems solved, ratio to
// the best on each problem, edges.
Table standing_table(const Benchmark& benchmark);
// The table with an explanation of its columns. `format`: text or markdown.
std::string standing_report(const Benchmark& benchmark, TableFormat format);

}  // namespace hetsgd
