// Performance profiles: E. D. Dolan, J. J. More, "Benchmarking optimization software with
// performance profiles", Mathematical Programming 91, 2002.
//
// A problem is a workload with a target that at least one group reached at the median; a solver is a
// label, which names the same method in all workloads. Its ratio r on a problem is its median time
// over the best median time there; infinity: not reached. The page draws, for each solver, the share
// of its problems with r <= tau over tau; here is the area below that line from 1 to kProfileEnd,
// over kProfileEnd - 1: each r adds (kProfileEnd - r) / (kProfileEnd - 1) / problems.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "result/report/parts.hpp"
#include "result/statistics.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

constexpr double kProfileEnd = 4;  // as AlgoPerf (Dahl et al. 2023) has it

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

// 1 where both are equal, also 0.
double ratio_to_best(double time, double best) {
  return time == best ? 1 : ratio_of_times(time, best);
}

json solver_json(const std::string& label, const Solver& solver) {
  double area = 0;
  std::size_t solved = 0;
  for (const double ratio : solver.ratios) {
    area += std::max(0.0, (kProfileEnd - ratio) / (kProfileEnd - 1));
    solved += std::isfinite(ratio) ? 1 : 0;
  }
  return {{"label", label},
          {"problems", solver.problems},
          {"ratios", solver.ratios},
          {"solved", solved},
          {"area", area / static_cast<double>(solver.ratios.size())}};
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
