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

}  // namespace

std::vector<std::string> warnings_of(const Record& record, const Summary& summary) {
  std::vector<std::string> warnings = record.warnings;
  for (const auto& [target, time] : summary.targets) {
    const std::size_t evaluation = time.first_evaluation;
    if (!time.first || evaluation == 0 || evaluation > kFineEvaluations) continue;
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
