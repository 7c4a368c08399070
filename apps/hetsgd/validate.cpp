// hetsgd validate checks whether a file is a valid result.
#include "result/validate.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.hpp"
#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "experiment/sweep_spec.hpp"
#include "experiment/tuning.hpp"

namespace hetsgd {
namespace {

class Validate final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "validate",
            .summary = "check files that train and tune wrote, and specifications of sweeps (TOML)",
            .examples = {"hetsgd validate result.json", "hetsgd validate results/*.json",
                         "hetsgd validate --schema > result.schema.json"},
            .operands = "[RESULT...]"};
  }

  void declare(OptionSet& set) override {
    set.add("schema", schema_, "Print the JSON Schema (draft 7) of results.");
  }

  int run(OptionSet&, const std::vector<std::string>& paths) override {
    if (schema_) {
      fmt::print("{}", result_schema());
      return 0;
    }
    if (paths.empty()) refuse("validate", "no operand", "RESULT... or --schema");
    std::size_t bad = 0;
    for (const std::string& path : paths) {
      const std::vector<Finding> findings = findings_of(path);
      for (const Finding& finding : findings) say("{}: {}\n", path, finding.line());
      if (findings.empty()) say("{}: valid\n", path);
      bad += findings.empty() ? 0 : 1;
    }
    if (bad == 0) return 0;
    throw data_error("{} of {} files {} not valid", bad, paths.size(), bad == 1 ? "is" : "are");
  }

 private:
  static std::vector<Finding> findings_of(const std::string& path) {
    if (path.ends_with(".toml")) return check_schema(sweep_schema(), read_sweep_spec(path).written);
    const nlohmann::json document = read_json(path);
    return is_tuning(document) ? validate_tuning(document) : validate_result(document);
  }

  bool schema_ = false;
};

}  // namespace

const bool validate_registered = register_command<Validate>(CommandGroup::results, 4);

}  // namespace hetsgd
