// hetsgd validate checks whether a file is a valid result, tuning, network or specification of a
// sweep.
#include "result/validate.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.hpp"
#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "experiment/sweep_spec.hpp"
#include "experiment/tuning.hpp"
#include "graph/graph_file.hpp"

namespace hetsgd {
namespace {

class Validate final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "validate",
            .summary =
                "check files that train and tune wrote, specifications of sweeps (TOML), and "
                "networks",
            .examples = {"hetsgd validate result.json", "hetsgd validate results/*.json",
                         "hetsgd validate --schema > result.schema.json"},
            .operands = "[FILE...]"};
  }

  void declare(OptionSet& set) override {
    set.add("schema", schema_, "Print the JSON Schema (draft 7) of results.");
  }

  int run(OptionSet&, const std::vector<std::string>& paths) override {
    if (schema_) {
      fmt::print("{}", result_schema());
      return 0;
    }
    if (paths.empty()) refuse("validate", "no operand", "FILE... or --schema");
    std::size_t bad = 0;
    for (const std::string& path : paths) {
      const Checked file = check(path);
      for (const Finding& finding : file.findings) say("{}: {}\n", path, finding.line());
      if (file.findings.empty()) say("{}: valid{}\n", path, file.what);
      bad += file.findings.empty() ? 0 : 1;
    }
    if (bad == 0) return 0;
    throw data_error("{} of {} files {} not valid", bad, paths.size(), bad == 1 ? "is" : "are");
  }

 private:
  struct Checked {
    std::vector<Finding> findings;
    std::string what{};  // " network of 9 nodes" where "valid" alone would be taken for a result
  };

  static Checked check(const std::string& path) {
    if (path.ends_with(".toml")) {
      return {check_schema(sweep_schema(), read_sweep_spec(path).written)};
    }
    const nlohmann::json document = read_json(path);
    if (is_tuning(document)) return {validate_tuning(document)};
    const std::string kind = other_kind(document);
    if (kind == "network") {
      return {{}, fmt::format(" network of {} nodes", read_graph(path).size() - 1)};
    }
    if (kind.empty()) return {validate_result(document)};
    return {{{"", fmt::format("found a {}, expected a result, a tuning, a network, or a sweep's "
                              "specification (TOML)",
                              kind)}}};
  }

  bool schema_ = false;
};

}  // namespace

const bool validate_registered = register_command<Validate>(CommandGroup::results, 4);

}  // namespace hetsgd
