// hetsgd fit: a straggler scenario from a record.
#include <fmt/format.h>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/replay/straggler_fit.hpp"
#include "printer.hpp"

namespace hetsgd {
namespace {

class Fit final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "fit",
            .summary = "make a straggler scenario from a recorded run",
            .examples = {"hetsgd fit run.jsonl.zst",
                         "hetsgd fit run.jsonl.zst -o scenario.json --trace-csv delays.csv",
                         "hetsgd train --config scenario.json --workers 4 ...",
                         "hetsgd fit steps.csv -o scenario.json"},
            .operands = "TIMELINE"};
  }

  void declare(OptionSet& set) override {
    set.add("output", output_,
            "File for the scenario (JSON), which --config of hetsgd train reads.")
        .writes_file("the scenario");
    set.add("trace_csv", trace_csv_,
            "File for the exact delay of every step (CSV), which --straggler "
            "kind=trace,file=... repeats. A worker with too few steps for another kind needs it.")
        .writes_file("the delays");
    set.add("overwrite", overwrite_, "Replace existing output files.").of_call();
    printer_.declare_json(set);
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const Timeline timeline = read_timeline(operands.front());
    if (timeline.cut) {
      warn("{} is cut off: fitted up to the end of its last whole round", timeline.path);
    }
    const std::vector<WorkerFit> fits = fit_stragglers(timeline);
    std::vector<Row> rows;
    for (const WorkerFit& fit : fits) rows.push_back(row_of(fit));
    if (printer_.json()) {
      printer_.print(json_of(rows));
    } else {
      printer_.print(table_of(rows).format(TableFormat::text));
    }
    if (!trace_csv_.empty()) write_noted(trace_csv_, trace_csv(fits), "delays");
    if (output_.empty()) return 0;
    const nlohmann::json scenario = {{"straggler", specifications_of(fits, trace_csv_)}};
    write_noted(output_, scenario.dump(2) + "\n", "scenario");
    return 0;
  }

 private:
  static std::string value_of(const FittedParameter& parameter, double value) {
    return parameter.is_time ? format_seconds(Seconds(value)) : fmt::format("{:.4g}", value);
  }

  static Row row_of(const WorkerFit& fit) {
    Row row;
    row.both("worker", "rank", fit.rank);
    row.both("steps", "steps", fit.steps);
    row.both("factor", "factor", fit.factor, "{:.4f}");
    row.both("kind", "kind", fit.kind);
    std::string text;
    nlohmann::json parameters = nlohmann::json::object();
    for (const FittedParameter& each : fit.parameters) {
      text += fmt::format("{}{} {} [{}, {}]", text.empty() ? "" : ", ", each.key,
                          value_of(each, each.value), value_of(each, each.low),
                          value_of(each, each.high));
      parameters[each.key] = {{"value", each.value}, {"low", each.low}, {"high", each.high}};
    }
    row.show("parameters [95 % interval]", text.empty() ? "-" : text)
        .keep("parameters", parameters);
    row.both("p", "p_value", fit.p_value, "{:.3g}");
    return row;
  }

  std::string output_, trace_csv_;
  bool overwrite_ = false;
  Printer printer_;
};

}  // namespace

const bool fit_registered = register_command<Fit>(CommandGroup::results, 8);

}  // namespace hetsgd
