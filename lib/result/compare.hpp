// Comparing families of runs: time to accuracy and its two factors, statistical efficiency (samples
// and updates to the target) and hardware efficiency (samples per second), per run and per group of
// seeds, against a reference. A target that was missed is infinity, never dropped; a run that
// diverged is a run like any other.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "result/statistics.hpp"
#include "result/table.hpp"
#include "result/time_to_accuracy.hpp"
#include "training/record.hpp"

namespace hetsgd {

struct LoadedResult {
  std::string path;
  nlohmann::json json;  // a valid result (read_result)
  // The names of its machine and its method in a sweep; empty: it has none.
  std::string setup = {}, case_name = {};
};

// How groups are called. A label consists of the case of a sweep, else of the algorithm, and of the
// options in which groups of the same name differ: "ssgd", "ssp (staleness=4)". Where the results of
// one comparison have several setups, the setup opens the label.
struct GroupNames {
  bool cases = false;                                    // the results have different cases
  std::map<std::string, std::set<std::string>> options;  // by name; none: the name tells enough
};
// For several comparisons that are shown together: a method has the same label in all of them.
GroupNames names_of(const std::vector<const std::vector<LoadedResult>*>& comparisons);

struct CompareOptions {
  std::vector<Target> targets{};  // empty: every target that one of the results names
  // One of the paths, a group's label, or a case or an algorithm that has one group; empty: the first
  // group, in the order of the results, that reached the most targets (at the median), with a warning
  // if it is not the first.
  std::string reference{};
  // Without a reference that is named: the group of the first result, also where it missed the targets.
  bool first_is_reference = false;
  RunClock clock = RunClock::training;   // of all times to targets
  std::optional<GroupNames> names = {};  // none: those of these results alone
};

// Infinity: not held (training/target.hpp says when a target counts as reached).
struct RunTarget {
  double time_s = 0, first_crossing_s = 0;
  double samples = 0, updates = 0;
  double evaluation = 0;    // number of the one from which on it is held; 0 is the initial model's
  double resolution_s = 0;  // since the evaluation before it: time_s is no more exact; NaN: none
  bool uncertain = false;   // held at the end of a run that is too short to be sure
  bool misses_at_end = false;  // crossed, but the last evaluation misses the target
};

struct RunRow {
  std::string path, label, algorithm, status;
  std::uint64_t seed = 0;
  double samples_per_s = 0;         // NaN: no time passed
  double updates_per_s = 0;         // until the last evaluation; NaN: no time passed
  double final_value = 0;           // of the comparison's metric; NaN: not measured
  std::vector<RunTarget> targets;   // by target
  nlohmann::json tuning;            // the result's `tuning`; null: not tuned
  std::vector<std::string> values;  // of the options Comparison::varying; "": it has none
};

// A quantity of a group beside the reference's: the ratio of the medians, this one's over the
// reference's, with its bootstrap interval (statistics.hpp), and the Mann-Whitney U test of the two.
// For the reference itself the ratio is 1 and the p-value NaN; NaN also where a run lacks the value.
struct Relation {
  Interval ratio;
  double p_value = 0;
};

// Against the reference: time = samples to the target / samples per second until then, so
//   speedup = statistical * hardware,
// with the medians of the groups for time and samples. NaN where a factor has no value: the target
// was missed, or reached before the first step.
struct GroupTarget {
  std::size_t reached = 0;        // runs that hold the target
  std::size_t misses_at_end = 0;  // runs that crossed it, and whose last evaluation misses it
  std::size_t uncertain = 0;      // runs that end too soon to be sure that they hold it
  Interval time_s, first_crossing_s;
  double samples = 0, updates = 0;  // medians
  double ratio = 0;  // median time over the reference's: above 1 is slower; NaN: neither reached it
  Interval speedup;  // the reference's median time over this one's, with its bootstrap interval
  double statistical = 0;   // the reference's samples to the target over this one's
  double hardware = 0;      // this one's samples per second until the target over the reference's
  double p_value = 0;       // Mann-Whitney U test of the times; NaN for the reference itself
  double p_holm = 0;        // corrected for all comparisons with the reference at this target
  double evaluation = 0;    // median of the runs'
  double resolution_s = 0;  // the largest of the runs that reached it; NaN: none
  Relation first_crossing_relation, samples_relation, updates_relation;
};

// Runs that differ in their seed alone.
struct GroupRow {
  std::string algorithm;
  std::string case_name;  // of all its runs; empty: they have none
  std::string name;       // GroupNames says what it consists of
  std::string options;    // in which it differs from other groups of its name, "a=1, b=2"
  std::string label;      // "name (options)", or the name alone
  bool reference = false;
  std::vector<std::size_t> runs;        // places in Comparison::runs
  std::size_t diverged = 0;             // runs that did
  Interval samples_per_s, final_value;  // medians NaN if a run lacks the value
  Relation samples_per_s_relation, updates_per_s_relation, final_relation;
  nlohmann::json tuning;  // of its first run
  std::vector<GroupTarget> targets;
};

struct Comparison {
  std::vector<Target> targets;
  std::string metric;                // of final_value
  std::vector<std::string> varying;  // options in which those groups differ that have them, by name
  RunClock clock = RunClock::training;
  std::vector<RunRow> runs;      // in the order of the results
  std::vector<GroupRow> groups;  // by median time to the first target, then by final value
  std::vector<std::string> warnings;

  const GroupRow& reference() const;
  // In the order of their first files, so that a program finds them where it put them.
  std::vector<const GroupRow*> groups_by_file() const;
  // The largest ratio of all groups and targets; 0 if there is none.
  double worst_ratio() const;
};

// The options that tell no groups apart, as a JSON list of names (ungrouped_options.json).
std::string_view ungrouped_options();

// Errors: usage (no results, a reference that is not among them, a clock that one of them lacks).
Comparison compare(const std::vector<LoadedResult>& results, const CompareOptions& options);

// For programs: one row per run, and one per group and target, with a column for each varying
// option. Times in seconds; a missed target is inf. The tables have the order of `comparison`,
// JSON that of groups_by_file().
Table runs_table(const Comparison& comparison);
Table groups_table(const Comparison& comparison);
nlohmann::json comparison_json(const Comparison& comparison);
// For people: per target a table of at most about 130 columns, and what its columns mean, for LaTeX
// as a comment. `format`: text, markdown or latex.
std::string groups_report(const Comparison& comparison, TableFormat format);

}  // namespace hetsgd
