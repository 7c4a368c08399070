// hetsgd report: many results as one page.
#include "result/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "result_inputs.hpp"

namespace hetsgd {
namespace {

enum class ReportFormat { page, data };

class Report final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "report",
            .summary = "write results as one page with tables and charts, which needs no server",
            .examples = {"hetsgd report runs -o report.html",
                         "hetsgd report sweep --target 'p1>=0.6' --reference ssgd --overwrite",
                         "hetsgd report runs --format json -o - | jq .workloads[0].groups"},
            .operands = "FOLDER|INDEX|RESULT..."};
  }

  void declare(OptionSet& set) override {
    set.add("output", output_, "Output file; - is stdout.").writes_file("the report");
    set.add("overwrite", overwrite_, "Replace an existing output file.");
    set.add(
        "title", title_,
        "Heading of the page. Default: the name of the sweep that all results belong to, else the "
        "folders and files, or the first of many.");
    set.add("target", targets_,
            "Target that the results are judged by, e.g. 'p1>=0.6'. Repeat the option for several "
            "targets. Default: the targets of the results.");
    set.add(
        "reference", reference_,
        "Group that the others of its workload are compared with: its label, its case in a sweep, "
        "its algorithm, or one of its files. Default: the first group that reached the targets, in "
        "the order of the sweep's specification or of the files.");
    set.add_choice("format", format_, {{"html", ReportFormat::page}, {"json", ReportFormat::data}},
                   "html writes the page, json the numbers that it shows.");
  }

  // All inputs of the report are registered, so that the report cannot replace one of them.
  void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const override {
    for (const std::string& file : result_files(operands)) files.add_input(info().name, file);
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    ReportOptions options;
    options.reference = reference_;
    for (const std::string& text : targets_) {
      options.targets.push_back(parse_target(text, "--target"));
    }
    ResultInputs inputs = read_result_inputs(operands);
    options.title = !title_.empty()         ? title_
                    : !inputs.title.empty() ? inputs.title
                                            : heading_of(operands);
    options.about = std::move(inputs.about);
    options.notes = std::move(inputs.notes);
    const nlohmann::json data = report_data(std::move(inputs.results), options);
    OutputFile file(output_, {.what = "the report"});
    file.write(format_ == ReportFormat::page ? report_page(data) : data.dump(1) + "\n");
    file.commit();
    const std::size_t workloads = data["workloads"].size();
    log_info("{}: {} runs, {} workload{}", output_, data["runs"].get<std::size_t>(), workloads,
             workloads == 1 ? "" : "s");
    return 0;
  }

 private:
  // The heading names only a few operands, because *.json in a shell names every file of a sweep.
  static std::string heading_of(const std::vector<std::string>& operands) {
    constexpr std::size_t kMostNamed = 3;
    if (operands.size() <= kMostNamed) return fmt::format("{}", fmt::join(operands, ", "));
    return fmt::format("{} and {} others", operands.front(), operands.size() - 1);
  }

  std::string output_ = "report.html";
  bool overwrite_ = false;
  std::string title_;
  std::vector<std::string> targets_;
  std::string reference_;
  ReportFormat format_ = ReportFormat::page;
};

}  // namespace

const bool report_registered = register_command<Report>(CommandGroup::results, 2);

}  // namespace hetsgd
