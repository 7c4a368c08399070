#include "result/remarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/text.hpp"

namespace hetsgd {
namespace {

// Over all workers; "": nobody has waited, or there is no trace.
std::string waiting_text(const Record& record) {
  std::map<std::pair<int, std::string>, Seconds> sums;
  Seconds all{0};
  for (const WorkerRecord& worker : record.workers) {
    if (!worker.waited_for) continue;
    all += worker.report.breakdown.wait;
    for (const WaitedFor& each : *worker.waited_for) sums[{each.rank, each.service}] += each.wait;
  }
  if (sums.empty() || all <= Seconds(0)) return "";
  const auto& [whom, most] =
      *std::ranges::max_element(sums, {}, [](const auto& entry) { return entry.second; });
  return fmt::format("waiting: {} of the workers' time, {:.0f} % of it for {}", format_seconds(all),
                     100 * (most / all),
                     whom.first >= 0 ? fmt::format("worker {}", whom.first)
                                     : fmt::format("the service {}", whom.second));
}

// Why a time to a target is less than it seems; "": it is what it seems.
std::string doubt_of(const Target& target, const TimeToAccuracy& time) {
  if (time.outcome() == TargetOutcome::crossed) {
    return fmt::format(
        "{} is crossed after {}, but not held: of that evaluation and the next four, more than "
        "half "
        "have to reach it (at the end of a run at least three are needed)",
        target.text(), format_seconds(Seconds(time.first_crossing->time_s)));
  }
  if (time.held && time.misses_at_end) {
    return fmt::format("{} is held from {} on, but the last evaluation misses it", target.text(),
                       format_seconds(Seconds(time.held->time_s)));
  }
  return "";
}

}  // namespace

std::vector<std::string> warnings_of(const Record& record, const Summary& summary) {
  std::vector<std::string> warnings = record.warnings;
  for (const auto& [target, time] : summary.targets) {
    if (std::string doubt = doubt_of(target, time); !doubt.empty()) {
      warnings.push_back(std::move(doubt));
    }
    const std::size_t evaluation = time.evaluation;
    if (!time.held || evaluation == 0 || evaluation > kFineEvaluations) continue;
    warnings.push_back(fmt::format(
        "{} was reached at evaluation {}: its time is known to {}, the distance of evaluations; "
        "--evaluate-every makes it finer",
        target.text(), evaluation, format_seconds(Seconds(time.resolution_s))));
  }
  return warnings;
}

std::vector<std::string> remarks_of(const Record& record, const Summary& summary) {
  std::vector<std::string> remarks = record.remarks;
  if (summary.server_link_ratio) {
    remarks.push_back(fmt::format("server link {:.0f} % busy", 100 * *summary.server_link_ratio));
  }
  if (std::string waiting = waiting_text(record); !waiting.empty()) {
    remarks.push_back(std::move(waiting));
  }
  return remarks;
}

}  // namespace hetsgd
