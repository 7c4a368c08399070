// The performance profile of a report (performance_profile.hpp).
//
// A problem is a workload with a target that at least one group reached at the median; a method is a
// label, which names the same one in all workloads, and counts with the problems on which it ran.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "result/performance_profile.hpp"
#include "result/report/parts.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

struct Solver {
  std::vector<std::size_t> problems;
  std::vector<double> ratios;
};

double best_time(const Comparison& comparison, std::size_t t) {
  double best = std::numeric_limits<double>::infinity();
  for (const GroupRow& group : comparison.groups) {
    best = std::min(best, group.targets[t].time_s.median);
  }
  return best;
}

json solver_json(const std::string& label, const Solver& solver) {
  const auto solved =
      std::ranges::count_if(solver.ratios, [](double ratio) { return std::isfinite(ratio); });
  return {{"label", label},
          {"problems", solver.problems},
          {"ratios", solver.ratios},
          {"solved", solved},
          {"area", profile_area(solver.ratios)}};
}

}  // namespace

nlohmann::json performance_profile(const std::vector<Workload>& workloads) {
  json problems = json::array(), solvers = json::array();
  std::map<std::string, Solver> by_label;
  std::vector<std::string> labels;  // in order of their first appearance
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    const Comparison& comparison = workloads[w].comparison;
    for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
      const double best = best_time(comparison, t);
      if (!std::isfinite(best)) continue;
      for (const GroupRow& group : comparison.groups) {
        if (!by_label.contains(group.label)) labels.push_back(group.label);
        Solver& solver = by_label[group.label];
        solver.problems.push_back(problems.size());
        solver.ratios.push_back(ratio_to_best(group.targets[t].time_s.median, best));
      }
      problems.push_back(
          {{"workload", w}, {"target", comparison.targets[t].text()}, {"best_time_s", best}});
    }
  }
  for (const std::string& label : labels) solvers.push_back(solver_json(label, by_label[label]));
  return {{"problems", problems}, {"solvers", solvers}, {"end", kProfileEnd}};
}

}  // namespace hetsgd::report
