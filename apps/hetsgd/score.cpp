// hetsgd score: the ranking of methods in a benchmark.
#include <fmt/format.h>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "experiment/benchmark.hpp"
#include "printer.hpp"

namespace hetsgd {
namespace {

class ScoreCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "score",
            .summary = "rank the methods of a benchmark by performance profiles",
            .examples = {"hetsgd score v1.toml --runs runs/benchmark/v1",
                         "hetsgd score v1.toml --runs runs/benchmark/v1 --format json",
                         "hetsgd score v1.toml --check entry.json",
                         "hetsgd score --schema > standing.schema.json"},
            .operands = "[SPEC]"};
  }

  void declare(OptionSet& set) override {
    set.add("runs", runs_,
            "Folder with the sweep of SPEC and the sweeps of entries. An entry differs from SPEC "
            "only in its cases.");
    printer_.declare_format(
        set, {PrintFormat::text, PrintFormat::markdown, PrintFormat::csv, PrintFormat::json});
    set.add("check", check_,
            "Specification to check instead of ranking: whether it is an entry to the benchmark.")
        .reads_file();
    set.add("schema", schema_, "Print the JSON Schema (draft 7) of --format json.");
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (schema_) {
      fmt::print("{}", standing_schema());
      return 0;
    }
    if (operands.empty()) refuse("score", "no operand", "SPEC or --schema");
    const SweepSpec spec = read_sweep_spec(operands.front());
    if (!check_.empty()) return check_entry(spec);
    const Benchmark benchmark = read_benchmark(spec, runs_);
    print(benchmark);
    for (const std::string& note : benchmark.notes) warn("{}", note);
    return 0;
  }

 private:
  int check_entry(const SweepSpec& spec) const {
    check_benchmark(spec);
    const std::string reason = why_no_entry(spec, read_sweep_spec(check_).written);
    if (!reason.empty()) throw usage_error("{}: not an entry to {}: {}", check_, spec.name, reason);
    say("{}: an entry to {}\n", check_, spec.name);
    return 0;
  }

  void print(const Benchmark& benchmark) const {
    if (printer_.json()) return printer_.print(standing_json(benchmark));
    const TableFormat format = printer_.table_format();
    printer_.print(format == TableFormat::csv ? standing_table(benchmark).format(format)
                                              : standing_report(benchmark, format));
  }

  std::string runs_ = "runs";
  std::string check_;
  Printer printer_;
  bool schema_ = false;
};

}  // namespace

const bool score_registered = register_command<ScoreCommand>(CommandGroup::results, 3);

}  // namespace hetsgd
