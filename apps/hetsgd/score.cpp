// hetsgd score: where methods stand in a benchmark.
#include <fmt/format.h>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "experiment/benchmark.hpp"

namespace hetsgd {
namespace {

enum class ScoreFormat { text, markdown, csv, document };

class ScoreCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "score",
            .summary = "where methods stand in a benchmark, by performance profiles",
            .examples = {"hetsgd score v1.toml --runs runs/benchmark/v1",
                         "hetsgd score v1.toml --runs runs/benchmark/v1 --format json",
                         "hetsgd score v1.toml --check entry.json",
                         "hetsgd score --schema > standing.schema.json"},
            .operands = "SPEC",
            .minimum_operands = 0,
            .maximum_operands = 1};
  }

  void declare(OptionSet& set) override {
    set.add(
        "runs", runs_,
        "folder of the sweeps: of SPEC itself and of entries, which differ in their cases alone");
    set.add_choice("format", format_,
                   {{"text", ScoreFormat::text},
                    {"markdown", ScoreFormat::markdown},
                    {"csv", ScoreFormat::csv},
                    {"json", ScoreFormat::document}},
                   "how to print");
    set.add("check", check_,
            "only say whether this specification is an entry to the benchmark, before it is run")
        .reads_file();
    set.add("schema", schema_, "print the JSON Schema (draft 7) of --format json instead");
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (schema_) {
      fmt::print("{}", standing_schema());
      return 0;
    }
    if (operands.empty()) throw usage_error("score: expected SPEC or --schema");
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
    if (!reason.empty()) throw usage_error("{}: no entry to {}: {}", check_, spec.name, reason);
    say("{}: an entry to {}\n", check_, spec.name);
    return 0;
  }

  void print(const Benchmark& benchmark) const {
    switch (format_) {
      case ScoreFormat::text:
        return print_text(standing_report(benchmark, TableFormat::text));
      case ScoreFormat::markdown:
        return print_text(standing_report(benchmark, TableFormat::markdown));
      case ScoreFormat::csv:
        return print_text(standing_table(benchmark).format(TableFormat::csv));
      case ScoreFormat::document:
        return fmt::print("{}\n", standing_json(benchmark).dump(1));
    }
  }

  std::string runs_ = "runs";
  std::string check_;
  ScoreFormat format_ = ScoreFormat::text;
  bool schema_ = false;
};

}  // namespace

const bool score_registered = register_command<ScoreCommand>(CommandGroup::results, 3);

}  // namespace hetsgd
