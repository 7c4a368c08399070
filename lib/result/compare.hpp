// Comparing results: time to accuracy and its two factors, statistical efficiency (samples and
// updates to the target) and hardware efficiency (samples per second), per run and per group of
// seeds, against a reference.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/statistics.hpp"
#include "result/table.hpp"
#include "training/record.hpp"

namespace hetsgd {

struct LoadedResult {
  std::string path;
  nlohmann::json json;  // a valid result (read_result)
};

struct CompareOptions {
  std::vector<Target> targets;  // empty: every target that one of the results names
  std::string reference;        // one of the paths; empty: the first
};

// Infinity: not reached.
struct RunTarget {
  double time_s = 0, smoothed_time_s = 0;
  double samples = 0, updates = 0;
};

struct RunRow {
  std::string path, label, algorithm, status;
  std::uint64_t seed = 0;
  double samples_per_s = 0;        // NaN: no time passed
  double final_value = 0;          // of the comparison's metric; NaN: not measured
  std::vector<RunTarget> targets;  // by target
};

struct GroupTarget {
  std::size_t reached = 0;  // runs that did
  Interval time_s, smoothed_time_s;
  double samples = 0, updates = 0;  // medians
  double ratio = 0;  // median time over the reference's: above 1 is slower; NaN: neither reached it
};

// Runs that differ in their seed alone.
struct GroupRow {
  std::string label, algorithm;
  bool reference = false;
  std::vector<std::size_t> runs;        // places in Comparison::runs
  Interval samples_per_s, final_value;  // medians NaN if a run lacks the value
  std::vector<GroupTarget> targets;
};

struct Comparison {
  std::vector<Target> targets;
  std::string metric;  // of final_value
  std::vector<RunRow> runs;
  std::vector<GroupRow> groups;  // in the order of their first file
  std::vector<std::string> warnings;

  // The largest ratio of all groups and targets; 0 if there is none.
  double worst_ratio() const;
};

// Errors: usage (no results, a reference that is not among them).
Comparison compare(const std::vector<LoadedResult>& results, const CompareOptions& options);

// One row per run, or per group. Times in seconds.
Table runs_table(const Comparison& comparison);
Table groups_table(const Comparison& comparison);
nlohmann::json comparison_json(const Comparison& comparison);

}  // namespace hetsgd
