// hetsgd compare: results side by side.
#include "result/compare.hpp"

#include <fmt/format.h>

#include "commands.hpp"
#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "result/result.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

enum class CompareFormat { text, markdown, latex, csv, json };

class Compare final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "compare",
            .summary = "time to accuracy of several results, and what it is made of",
            .examples = {"hetsgd compare ssgd.json adaptive.json --target 'p1>=0.6'",
                         "hetsgd compare results/*.json --reference ssgd --format latex",
                         "hetsgd compare results/*.json --runs --format csv",
                         "hetsgd compare before.json after.json --fail-if-slower 1.05"},
            .operands = "RESULT...",
            .minimum_operands = 1,
            .maximum_operands = 100000};
  }

  void declare(OptionSet& set) override {
    set.add("target", targets_,
            "metric to reach, e.g. 'p1>=0.6'; repeat for several; "
            "without it, the targets that the files name");
    set.add("reference", reference_,
            "algorithm, or one of the files, with whose group the others are compared; default: "
            "the first file's group that reached the targets");
    set.add_choice("format", format_,
                   {{"text", CompareFormat::text},
                    {"markdown", CompareFormat::markdown},
                    {"latex", CompareFormat::latex},
                    {"csv", CompareFormat::csv},
                    {"json", CompareFormat::json}},
                   "how to print");
    set.add("runs", runs_, "one row per file instead of one per group of seeds");
    set.add("fail_if_slower", fail_if_slower_,
            "exit with 7 when a group needs more than this many times the reference's time, by "
            "default that of the first file; 0: never")
        .at_least(0);
  }

  int run(OptionSet&, const std::vector<std::string>& paths) override {
    CompareOptions options;
    options.reference = reference_;
    for (const std::string& text : targets_) {
      options.targets.push_back(parse_target(text, "--target"));
    }
    std::vector<LoadedResult> results;
    for (const std::string& path : paths) {
      if (const std::string kind = other_kind(read_json(path)); !kind.empty()) {
        log_info("{}: skipped, it is a {} and no result", path, kind);
        continue;
      }
      results.push_back({path, read_result(path)});
    }
    // What came before is the measure of what comes after, also where it missed the target.
    if (fail_if_slower_ > 0 && reference_.empty() && !results.empty()) {
      options.reference = results.front().path;
    }
    const Comparison comparison = compare(results, options);
    print(comparison);
    for (const std::string& warning : comparison.warnings) warn("{}", warning);
    return verdict(comparison);
  }

 private:
  void print(const Comparison& comparison) const {
    if (format_ == CompareFormat::json) {
      nlohmann::json document = comparison_json(comparison);
      escape_bytes(document);
      fmt::print("{}\n", document.dump(1));
      return;
    }
    if (format_ == CompareFormat::csv) {
      const Table table = runs_ ? runs_table(comparison) : groups_table(comparison);
      print_text(table.format(TableFormat::csv));
      return;
    }
    const TableFormat format = format_ == CompareFormat::text       ? TableFormat::text
                               : format_ == CompareFormat::markdown ? TableFormat::markdown
                                                                    : TableFormat::latex;
    print_text(runs_ ? runs_table(comparison).format(format) : groups_report(comparison, format));
  }

  int verdict(const Comparison& comparison) const {
    const double worst = comparison.worst_ratio();
    if (fail_if_slower_ == 0 || !(worst > fail_if_slower_)) return 0;
    log(LogLevel::error,
        fmt::format("slower than the reference by a factor of {:.3f} (--fail-if-slower {})", worst,
                    fail_if_slower_));
    return static_cast<int>(ExitCode::regression);
  }

  std::vector<std::string> targets_;
  std::string reference_;
  CompareFormat format_ = CompareFormat::text;
  bool runs_ = false;
  double fail_if_slower_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<Compare>(); }

}  // namespace hetsgd
