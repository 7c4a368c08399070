// Compares groups of runs with a reference, per run and per group of seeds. The measures are time
// to accuracy and its two factors, statistical efficiency (samples and updates to the target) and
// hardware efficiency (samples per second). A missed target counts as infinity and is never
// dropped. A run that diverged is treated as any other run.
//
//   files ─> LoadedResult ─split_workloads()─> Workload (workloads.hpp) ─compare()─> Comparison
//     Comparison ─> groups_report(), tables, JSON: `hetsgd compare`
//     Comparison ─report_data()─> document ─report_page()─> page: `hetsgd report` (report.hpp)
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
  // The names of its setup and its case in a sweep; empty: it has none.
  std::string setup = {}, case_name = {};
};

// The rule for labels of groups. A label consists of a name (the case in a sweep, else the
// algorithm) and of the options in which groups of this name differ: "ssgd", "ssp (staleness=4)".
// If the results of one comparison have several setups, the label begins with the setup.
struct GroupNames {
  bool cases = false;                                    // the results have different cases
  std::map<std::string, std::set<std::string>> options;  // by name; none: the name suffices
};
// Names for several comparisons that are shown together, so that a method has the same label in
// all.
GroupNames names_of(const std::vector<const std::vector<LoadedResult>*>& comparisons);

struct CompareOptions {
  std::vector<Target> targets{};  // empty: every target named by a result
  // The reference: one of the paths, a group's label, or a case or algorithm that has one group.
  // Empty: the first group, in the order of the results, among those that reached the most targets
  // (at the median). A warning follows if it is not the first group.
  std::string reference{};
  // If no reference is named, take the group of the first result, even if it missed the targets.
  bool first_is_reference = false;
  RunClock clock = RunClock::training;   // clock of all times to targets
  std::optional<GroupNames> names = {};  // none: names_of() these results
};

// The times and counts of a run at a target; infinity if the target is not held
// (training/target.hpp).
struct RunTarget {
  double time_s = 0, first_crossing_s = 0;
  double samples = 0, updates = 0;
  double evaluation = 0;       // number of the one that holds it; 0: the initial model
  double resolution_s = 0;     // gap to the evaluation before, the error of time_s; NaN: none
  bool uncertain = false;      // held at the end of a run that is too short to be sure
  bool misses_at_end = false;  // crossed, but the last evaluation misses the target
};

struct RunRow {
  std::string path, label, algorithm, status;
  std::uint64_t seed = 0;
  double samples_per_s = 0;         // NaN: no time passed
  double updates_per_s = 0;         // until the last evaluation; NaN: no time passed
  double final_value = 0;           // the comparison's metric; NaN: not measured
  std::vector<RunTarget> targets;   // by target
  nlohmann::json tuning;            // the result's `tuning`; null: not tuned
  std::vector<std::string> values;  // of Comparison::varying; "": no such option
};

// A quantity of a group relative to the reference: the ratio of the medians (group over reference)
// with its bootstrap interval, a test of the two, and the least ratio that these seeds would have
// shown (statistics.hpp). If the group is paired with the reference, all three are those of pairs,
// and the test is Wilcoxon's signed-rank test. Otherwise it is the Mann-Whitney U test. For the
// reference itself the ratio is 1 and the others are NaN. All are NaN if a run lacks the value.
struct Relation {
  Interval ratio;
  double p_value = 0;
  double least_effect = 0;
};

// A group at a target, relative to the reference. Time is samples to the target over samples per
// second until then, so
//   speedup = statistical * hardware,
// with the medians of the groups for time and samples. A factor is NaN if the target was missed, or
// was reached before the first step.
struct GroupTarget {
  std::size_t reached = 0;        // runs that hold the target
  std::size_t misses_at_end = 0;  // runs that crossed it but miss it at the end
  std::size_t uncertain = 0;      // runs that end too soon to be certain
  Interval time_s, first_crossing_s;
  double samples = 0, updates = 0;  // medians
  double ratio = 0;  // median time over the reference's: above 1 is slower; NaN: neither reached it
  Interval speedup;  // the reference's median time over this one's, with its bootstrap interval
  double statistical = 0;   // the reference's samples to the target over this one's
  double hardware = 0;      // this one's samples per second until the target over the reference's
  double p_value = 0;       // of the times, as in Relation
  double least_effect = 0;  // of the times, as in Relation
  double p_holm = 0;        // corrected for all comparisons with the reference at this target
  double evaluation = 0;    // median over the runs
  double resolution_s = 0;  // largest over the runs that reached it; NaN: none
  Relation first_crossing_relation, samples_relation, updates_relation;
};

// A group of runs that differ only in their seed.
struct GroupRow {
  std::string algorithm;
  std::string case_name;  // case of all its runs; empty: none
  std::string name;       // see GroupNames
  std::string options;    // differences to other groups of its name, "a=1, b=2"
  std::string label;      // "name (options)", or the name alone
  bool reference = false;
  // The group and the reference have the same data and the same seeds, each of them once. Runs of
  // one seed then are a pair: they have the same data order and, if the model is the same, the same
  // initial model.
  bool paired = false;
  std::vector<std::size_t> runs;        // indices into Comparison::runs
  std::size_t diverged = 0;             // number of diverged runs
  Interval samples_per_s, final_value;  // medians NaN if a run lacks the value
  Relation samples_per_s_relation, updates_per_s_relation, final_relation;
  nlohmann::json tuning;  // tuning of its first run
  std::vector<GroupTarget> targets;
};

struct Comparison {
  std::vector<Target> targets;
  std::string metric;                // metric of final_value
  std::vector<std::string> varying;  // options in which the groups with them differ
  RunClock clock = RunClock::training;
  std::vector<RunRow> runs;      // in the order of the results
  std::vector<GroupRow> groups;  // by median time to the first target, then by final value
  std::vector<std::string> warnings;

  const GroupRow& reference() const;
  // The groups in the order of their first files, so that a program finds them in its own order.
  std::vector<const GroupRow*> groups_by_file() const;
  // The largest ratio of all groups and targets; 0 if there is none.
  double worst_ratio() const;
};

// The options that do not separate groups, as a JSON list of names (ungrouped_options.json).
std::string_view ungrouped_options();

// Compares the results. Errors: usage (no results, a reference that is not among them, a clock that
// one of them lacks).
Comparison compare(const std::vector<LoadedResult>& results, const CompareOptions& options);

// Output for programs. runs_table() has a row per run, groups_table() one per group and target;
// both have a column per varying option. Times are in seconds, and a missed target is inf. The
// tables have the order of `comparison`, the JSON that of groups_by_file().
Table runs_table(const Comparison& comparison);
Table groups_table(const Comparison& comparison);
nlohmann::json comparison_json(const Comparison& comparison);
// Output for people: a table per target, about 130 columns wide at most, and an explanation of its
// columns (a comment in LaTeX). `format`: text, markdown or latex.
std::string groups_report(const Comparison& comparison, TableFormat format);

}  // namespace hetsgd
