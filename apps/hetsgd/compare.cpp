// hetsgd compare: results side by side.
#include "result/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "printer.hpp"
#include "result/workloads.hpp"
#include "result_inputs.hpp"

namespace hetsgd {
namespace {

class Compare final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "compare",
            .summary = "compare times to accuracy, and the factors that they are made of",
            .examples = {"hetsgd compare ssgd.json adaptive.json --target 'p1>=0.6'",
                         "hetsgd compare results/*.json --reference ssgd --format latex",
                         "hetsgd compare runs/fair --reference adaptive",
                         "hetsgd compare results/*.json --runs --format csv",
                         "hetsgd compare before.json after.json --fail-if-slower 1.05"},
            .operands = "FOLDER|INDEX|RESULT..."};
  }

  void declare(OptionSet& set) override {
    set.add("target", targets_,
            "Target that the results are judged by, e.g. 'p1>=0.6'. Repeat the option for several "
            "targets. Default: the targets of the results.");
    set.add(
        "reference", reference_,
        "Group that the others are compared with: its label, its case in a sweep, its algorithm, "
        "or one of its files. Default: the first group that reached the targets, in the order of "
        "the sweep's specification or of the files.");
    set.add_choice(
        "clock", clock_,
        {{"training", RunClock::training},
         {"algoperf", RunClock::algoperf},
         {"mlperf", RunClock::mlperf},
         {"dawnbench", RunClock::dawnbench}},
        "Clock of the times to targets. training: the run's own clock. algoperf: the run's own "
        "clock and the time to make the evaluated models. mlperf: wall-clock time since the "
        "training data were first read. dawnbench: loading, initialisation and the run's own "
        "clock.");
    printer_.declare_format(set, {PrintFormat::text, PrintFormat::markdown, PrintFormat::latex,
                                  PrintFormat::csv, PrintFormat::json});
    set.add("runs", runs_, "Print one row per file instead of one row per group of seeds.");
    set.add("fail_if_slower", fail_if_slower_,
            "Exit with 7 when a group needs more than this many times the reference's time. The "
            "default reference is then the group of the first result.")
        .at_least(0)
        .absent("never")
        .or_zero();
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    CompareOptions options;
    options.reference = reference_;
    options.clock = clock_;
    for (const std::string& text : targets_) {
      options.targets.push_back(parse_target(text, "--target"));
    }
    std::vector<Workload> workloads = workloads_of(read_result_inputs(operands).results);
    // With --fail-if-slower the first results are the reference for the later ones, even if they
    // missed the target.
    options.first_is_reference = fail_if_slower_.has_value();
    compare_workloads(workloads, options);
    print(workloads);
    for (const Workload& workload : workloads) {
      const std::string place = workloads.size() > 1 ? workload.name + ": " : "";
      for (const std::string& warning : workload.comparison.warnings) warn("{}{}", place, warning);
    }
    return verdict(workloads);
  }

 private:
  // Setups of a sweep are machines or workloads, and each has its own table. Results outside of
  // sweeps are compared as given, with a warning if their workloads differ.
  static std::vector<Workload> workloads_of(std::vector<LoadedResult> results) {
    if (results.empty()) refuse("compare", "no result files", "at least one");
    const bool setups = std::any_of(results.begin(), results.end(), [&](const LoadedResult& each) {
      return each.setup != results.front().setup;
    });
    if (setups) return split_workloads(std::move(results));
    std::vector<Workload> one(1);
    one.front().results = std::move(results);
    return one;
  }

  void print(const std::vector<Workload>& workloads) const {
    if (printer_.json()) return printer_.print(document_of(workloads));
    const TableFormat format = printer_.table_format();
    for (const Workload& workload : workloads) {
      const Comparison& comparison = workload.comparison;
      if (workloads.size() > 1) print_heading(workload, format, &workload == &workloads.front());
      printer_.print(runs_                        ? runs_table(comparison).format(format)
                     : format == TableFormat::csv ? groups_table(comparison).format(format)
                                                  : groups_report(comparison, format));
    }
  }

  static void print_heading(const Workload& workload, TableFormat format, bool first) {
    const char* const mark = format == TableFormat::markdown ? "## "
                             : format == TableFormat::latex  ? "% "
                             : format == TableFormat::csv    ? "# "
                                                             : "";
    print_text(fmt::format("{}{}{}{}\n", first ? "" : "\n", mark, workload.name,
                           format == TableFormat::markdown ? "\n" : ""));
  }

  // A single comparison is the whole document; several are a list.
  static nlohmann::json document_of(const std::vector<Workload>& workloads) {
    nlohmann::json all = nlohmann::json::array();
    for (const Workload& workload : workloads) {
      all.push_back(comparison_json(workload.comparison));
      if (workloads.size() > 1) all.back()["workload"] = workload.name;
    }
    return workloads.size() > 1 ? nlohmann::json{{"comparisons", all}} : all[0];
  }

  int verdict(const std::vector<Workload>& workloads) const {
    double worst = 0;
    for (const Workload& each : workloads) worst = std::max(worst, each.comparison.worst_ratio());
    if (!fail_if_slower_ || !(worst > *fail_if_slower_)) return 0;
    log(LogLevel::error,
        fmt::format("a group is slower than the reference by a factor of {:.3f} (--fail-if-slower "
                    "{})",
                    worst, *fail_if_slower_));
    return static_cast<int>(ExitCode::regression);
  }

  std::vector<std::string> targets_;
  std::string reference_;
  RunClock clock_ = RunClock::training;
  Printer printer_;
  bool runs_ = false;
  std::optional<double> fail_if_slower_;
};

}  // namespace

const bool compare_registered = register_command<Compare>(CommandGroup::results, 1);

}  // namespace hetsgd
