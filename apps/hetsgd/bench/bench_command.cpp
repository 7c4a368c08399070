#include "bench_command.hpp"

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/version.hpp"
#include "result/result.hpp"

namespace hetsgd {

void BenchCommand::declare(OptionSet& set) {
  declare_own(set);
  set.add("iterations", iterations_, "Number of timed iterations for each row.").range(1, 1e6);
  set.add("warmup", warmup_, "Number of untimed warm-up iterations for each row.").range(0, 1e6);
  printer_.declare_format(
      set, {OutputFormat::text, OutputFormat::markdown, OutputFormat::csv, OutputFormat::json});
  printer_.declare_output(set, "the table");
}

int BenchCommand::run(OptionSet&, const std::vector<std::string>&) {
  Report report = measure();
  if (report.is_root) {
    show_status("");
    if (printer_.json()) {
      nlohmann::json document = {{"benchmark", name_},
                                 {"version", version_json()},
                                 {"environment", environment_json()},
                                 {"iterations", iterations_},
                                 {"warmup", warmup_},
                                 {report.list, json_of(report.rows)}};
      document.update(report.facts);
      printer_.print(std::move(document), name_);
    } else {
      printer_.print(table_of(report.rows).format(printer_.format()), name_);
    }
    if (printer_.text()) {
      for (const std::string& note : report.notes) log_info("{}", note);
    }
  }
  if (report.wrong == 0) return 0;
  log(LogLevel::error, fmt::format("{} elements of the results are wrong", report.wrong));
  return static_cast<int>(ExitCode::runtime);
}

}  // namespace hetsgd
