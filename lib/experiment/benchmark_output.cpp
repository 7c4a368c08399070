// The standing of a benchmark as a table and as a document.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/text.hpp"
#include "core/version.hpp"
#include "experiment/benchmark.hpp"
#include "result/result.hpp"
#include "result/statistics.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json problem_json(const BenchmarkProblem& problem) {
  return {{"name", problem.name},
          {"target", problem.target.text()},
          {"train_content_hash", problem.data},
          {"best_time_s", problem.best_time_s}};
}

json method_json(const BenchmarkMethod& method) {
  const MethodScore& score = method.score;
  return {{"name", method.name},
          {"algorithm", method.algorithm},
          {"sweep", method.sweep},
          {"is_entry", method.is_entry},
          {"rank", score.rank},
          {"rank_low", score.rank_low},
          {"rank_high", score.rank_high},
          {"score", score.score},
          {"score_low", score.low},
          {"score_high", score.high},
          {"solved", score.solved},
          {"time_s", score.median_s},
          {"ratio", score.ratios},
          {"reached", method.reached},
          {"tuning",
           {{"trials", method.tuning_trials},
            {"samples_count", method.tuning_samples},
            {"train_s", method.tuning_train_s},
            {"edges_of_grid", method.edges}}}};
}

std::string ratio_text(double ratio) {
  return std::isinf(ratio) ? "inf" : fmt::format("{:.2f}", ratio);
}

std::string problem_line(const BenchmarkProblem& problem, const std::vector<BenchmarkMethod>& all,
                         std::size_t p) {
  constexpr std::size_t kMostNames = 3;
  std::vector<std::string> best;
  for (const BenchmarkMethod& method : all) {
    if (method.score.ratios[p] == 1) best.push_back(method.name);
  }
  if (best.size() > kMostNames) {
    best = {fmt::format("{} methods", best.size())};
  }
  return fmt::format(
      "{}, {}: {}", problem.name, problem.target.text(),
      best.empty() ? "nobody reached it"
                   : fmt::format("best {:.4g} s, {}", problem.best_time_s, fmt::join(best, ", ")));
}

}  // namespace

json standing_json(const Benchmark& benchmark) {
  json document = {{"schema_version", "1.0"},
                   {"kind", "standing"},
                   {"name", benchmark.name},
                   {"tool",
                    {{"name", "hetsgd"},
                     {"version", version()},
                     {"git_revision", git_revision()},
                     {"git_dirty", git_dirty()}}},
                   {"run_revisions", benchmark.revisions},
                   {"seeds", benchmark.seeds},
                   {"profile_end", kProfileEnd},
                   {"resamples", kResamples},
                   {"problems", json::array()},
                   {"methods", json::array()},
                   {"notes", benchmark.notes}};
  for (const BenchmarkProblem& each : benchmark.problems) {
    document["problems"].push_back(problem_json(each));
  }
  for (const BenchmarkMethod& each : benchmark.methods) {
    document["methods"].push_back(method_json(each));
  }
  explain_nonfinite(document);
  escape_bytes(document);
  return document;
}

Table standing_table(const Benchmark& benchmark) {
  std::vector<std::string> header = {"method", "rank", "score", "solved"};
  for (std::size_t p = 0; p < benchmark.problems.size(); ++p) {
    header.push_back(fmt::format("({})", p + 1));
  }
  header.push_back("edges");
  Table table(header);
  for (const BenchmarkMethod& method : benchmark.methods) {
    const MethodScore& score = method.score;
    std::vector<std::string> row = {
        method.name + (method.is_entry ? " *" : ""),
        fmt::format("{} [{}, {}]", score.rank, score.rank_low, score.rank_high),
        fmt::format("{:.3f} [{:.3f}, {:.3f}]", score.score, score.low, score.high),
        fmt::format("{}/{}", score.solved, benchmark.problems.size())};
    for (const double ratio : score.ratios) row.push_back(ratio_text(ratio));
    row.push_back(fmt::format("{}", method.edges));
    table.add(row);
  }
  return table;
}

std::string standing_report(const Benchmark& benchmark, TableFormat format) {
  const char* const bullet = format == TableFormat::markdown ? "\n" : "";
  std::string text = standing_table(benchmark).format(format) + "\n";
  text += fmt::format(
      "score: area under the performance profile up to {} times the best time, 1 is best; "
      "brackets:\n"
      "95 % bootstrap intervals over {} seeds. (1) to ({}): median time to the target over the "
      "best\n"
      "one, inf: missed. edges: of so many problems the tuned rate is an end of the grid, where a\n"
      "better one may lie beyond. *: an entry, not one of the methods of record.\n{}",
      kProfileEnd, benchmark.seeds, benchmark.problems.size(), bullet);
  for (std::size_t p = 0; p < benchmark.problems.size(); ++p) {
    text += fmt::format("{}({}) {}\n", format == TableFormat::markdown ? "- " : "", p + 1,
                        problem_line(benchmark.problems[p], benchmark.methods, p));
  }
  return text;
}

}  // namespace hetsgd
