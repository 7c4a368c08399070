// hetsgd algorithms [NAME]: the table, or one algorithm in detail, from the declarations.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "commands.hpp"
#include "help.hpp"
#include "result/table.hpp"

namespace hetsgd {
namespace {

using Json = nlohmann::json;

enum class Format { text, markdown, json };

OptionSet options_of(const RegisteredAlgorithm& registered, std::unique_ptr<Algorithm>& owner) {
  owner = registered.make();
  OptionSet set;
  owner->declare(set);
  return set;
}

std::string flags_text(const RegisteredAlgorithm& registered) {
  std::unique_ptr<Algorithm> owner;
  std::string text;
  const OptionSet set = options_of(registered, owner);
  for (const Option& option : set.options()) {
    text += (text.empty() ? "" : " ") + option.flag();
  }
  return text.empty() ? "-" : text;
}

Json algorithm_json(const RegisteredAlgorithm& registered) {
  const AlgorithmInfo& info = registered.info;
  std::unique_ptr<Algorithm> owner;
  Json options = Json::array();
  const OptionSet set = options_of(registered, owner);
  for (const Option& option : set.options()) {
    options.push_back({{"name", option.name},
                       {"flag", option.flag()},
                       {"help", option.help},
                       {"default", option.to_json()},
                       {"range", option.range_text()},
                       {"unit", option.unit},
                       {"symbol", option.symbol}});
  }
  return {{"name", info.name},
          {"title", info.title},
          {"idea", info.idea},
          {"paper", info.paper},
          {"cost", info.cost},
          {"result", info.result},
          {"identities", info.identities},
          {"synchronous", info.synchronous},
          {"options", std::move(options)}};
}

std::string detail_text(const RegisteredAlgorithm& registered) {
  const AlgorithmInfo& info = registered.info;
  std::string text = fmt::format("{} ({})\n\n{}\n\n", info.title, info.name, info.idea);
  const auto line = [&](const char* what, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}{}\n", what, value);
  };
  line("Paper", info.paper);
  line("Cost", info.cost);
  line("Result", info.result);
  line("Identities", info.identities);
  line("Kind", info.synchronous ? "synchronous" : "asynchronous");
  std::unique_ptr<Algorithm> owner;
  const OptionSet set = options_of(registered, owner);
  text += set.options().empty() ? "\nNo options of its own.\n" : "\nOptions:\n";
  for (const Option& option : set.options()) text += option_help(option);
  return text;
}

std::string text_table() {
  Table table({"name", "title", "kind", "paper"});
  for (const auto& [info, make] : algorithms()) {
    table.add({info.name, info.title, info.synchronous ? "sync" : "async", info.paper});
  }
  return table.format(TableFormat::text);
}

// For the README.
std::string markdown_table() {
  Table table({"name", "idea", "paper", "options"});
  for (const auto& each : algorithms()) {
    table.add({"`" + each.info.name + "`", each.info.idea, each.info.paper, flags_text(each)});
  }
  return table.format(TableFormat::markdown);
}

class Algorithms final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "algorithms",
            .summary = "the synchronisation methods, or one of them in detail",
            .examples = {"hetsgd algorithms", "hetsgd algorithms adaptive",
                         "hetsgd algorithms --format markdown"},
            .operands = "[NAME]",
            .minimum_operands = 0,
            .maximum_operands = 1};
  }

  void declare(OptionSet& set) override {
    set.add_choice("format", format_,
                   {{"text", Format::text}, {"markdown", Format::markdown}, {"json", Format::json}},
                   "how to print");
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (!operands.empty()) {
      const RegisteredAlgorithm& one = find_algorithm(operands[0]);
      fmt::print("{}",
                 format_ == Format::json ? algorithm_json(one).dump(2) + "\n" : detail_text(one));
      return 0;
    }
    if (format_ == Format::json) {
      Json all = Json::array();
      for (const auto& each : algorithms()) all.push_back(algorithm_json(each));
      fmt::print("{}\n", all.dump(2));
      return 0;
    }
    fmt::print("{}", format_ == Format::markdown ? markdown_table() : text_table());
    return 0;
  }

 private:
  Format format_ = Format::text;
};

}  // namespace

std::unique_ptr<Command> make_algorithms() { return std::make_unique<Algorithms>(); }

}  // namespace hetsgd
