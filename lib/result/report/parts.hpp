// The steps of report_data() that are in files of their own.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/compare.hpp"
#include "result/report.hpp"
#include "result/workloads.hpp"

namespace hetsgd::report {

// The results of one group, in the order of the files. They point into the workload.
using GroupResults = std::vector<const nlohmann::json*>;
GroupResults results_of(const Workload& workload, const GroupRow& group);

// Rounds to `digits` significant digits, which keeps the page small. NaN and infinity are
// unchanged.
double rounded(double value, int digits);
// At most `most` of the numbers 0 .. count - 1, evenly spread, including the first and the last.
std::vector<std::size_t> spread(std::size_t count, std::size_t most);
// charts.cpp: the metrics of a workload that have curves, with the comparison's metric first.
std::vector<std::string> curve_metrics(const Workload& workload);
// Whether the workload's curves have the bytes sent. If not, a run's bytes are distributed in
// proportion to its samples.
bool bytes_measured(const Workload& workload);
// {"x": {axis: [..]}, "y": {metric: {axis: {"median": [..], "low": [..], "high": [..]}}}} with axes
// time_s, samples_count and bytes_sent; at most `points` each. Between two evaluations a run's
// curve is a straight line, after its last one it keeps its value, and before its first one it has
// none. The axis ends where fewer than half of the runs go on. A value is null if fewer than half
// of the runs have one. `low` and `high` are the lowest and highest run, and absent if the group
// has one run.
nlohmann::json group_curves(const Workload& workload, const GroupRow& group, std::size_t points);

// workers.cpp: the shares of elapsed time that the workers spent computing, communicating and
// waiting, as means over the runs; null if no time has passed in any run.
nlohmann::json worker_shares(const GroupResults& results);
// Seconds that worker i waited for worker j, or for a service (columns after the workers). They are
// means over the runs with workers[].waited_for; null if no run has it.
nlohmann::json waited_for(const GroupResults& results);
// {"runs", "lost_workers", and the keys of a result's `survival`}: means over the runs that lost
// workers; null if none did.
nlohmann::json survival(const GroupResults& results);
// step_efficiency.cpp: gives the `survival` of each run that lost workers the key
// "step_efficiency": its updates per second over those of the run of the same seed and settings
// without failures, if that is among the results.
void add_step_efficiency(std::vector<LoadedResult>& results);
// The batch sizes per worker at the merges of the first run; null if they never changed.
nlohmann::json batch_sizes(const GroupResults& results);

// charts.cpp: {name: {"value", "share", "count", "p50", "p95", "max", "width"}} over the counts of
// all runs together.
nlohmann::json histograms(const GroupResults& results);

// charts.cpp: the performance profile of all workloads (Dolan and More 2002).
nlohmann::json performance_profile(const std::vector<Workload>& workloads);

}  // namespace hetsgd::report
