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

enum class ListFormat { text, markdown, json };

// An algorithm with its options as declared.
struct Described {
  explicit Described(const RegisteredAlgorithm& registered)
      : info(registered.info), owner(registered.make()) {
    owner->declare(set);
  }

  const AlgorithmInfo& info;
  std::unique_ptr<Algorithm> owner;  // of the options' variables
  OptionSet set;
};

Json algorithm_json(const RegisteredAlgorithm& registered) {
  const Described one(registered);
  const AlgorithmInfo& info = one.info;
  Json options = Json::array();
  for (const Option& option : one.set.options()) {
    options.push_back({{"name", option.name},
                       {"flag", option.flag()},
                       {"help", option.help},
                       {"default", option.to_json()},
                       {"choices", option.choices},
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
          {"max_workers", info.max_workers},
          {"plain_sgd_only", info.plain_sgd_only},
          {"options", std::move(options)}};
}

// What a detail page says before the options: heading, text.
std::vector<std::pair<std::string, std::string>> facts(const AlgorithmInfo& info) {
  std::vector<std::pair<std::string, std::string>> list = {
      {"Paper", info.paper},
      {"Kind", info.synchronous ? "synchronous: all workers go from round to round together"
                                : "asynchronous: every worker at its own pace"},
      {"Result", info.result},
      {"Cost", info.cost},
      {"Identities", info.identities},
      {"Workers", info.max_workers < AlgorithmInfo().max_workers
                      ? fmt::format("at most {}", info.max_workers)
                      : "any number"},
      {"Optimizers", info.plain_sgd_only.empty() ? "all" : "sgd alone: " + info.plain_sgd_only}};
  std::erase_if(list, [](const auto& fact) { return fact.second.empty(); });
  return list;
}

std::string detail_text(const RegisteredAlgorithm& registered) {
  const Described one(registered);
  std::string text =
      fmt::format("{} ({})\n\n{}\n\n", one.info.title, one.info.name, wrapped(one.info.idea, 0));
  for (const auto& [heading, fact] : facts(one.info)) {
    text += fmt::format("{:<12}{}\n", heading, wrapped(fact, 12));
  }
  text += one.set.options().empty() ? "\nNo options of its own.\n" : "\nOptions:\n";
  for (const Option& option : one.set.options()) text += option_help(option);
  return text;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) {
    row += ' ';
    for (const char c : cell) row += c == '|' ? std::string("\\|") : std::string(1, c);
    row += " |";
  }
  return row + "\n";
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string detail_markdown(const RegisteredAlgorithm& registered) {
  const Described one(registered);
  std::string text =
      fmt::format("# {} (`{}`)\n\n{}\n\n", one.info.title, one.info.name, one.info.idea);
  for (const auto& [heading, fact] : facts(one.info)) {
    text += fmt::format("- {}: {}\n", heading, fact);
  }
  if (one.set.options().empty()) return text + "\nNo options of its own.\n";
  text += "\n| option | default | range | unit | symbol | meaning |\n|---|---|---|---|---|---|\n";
  for (const Option& option : one.set.options()) {
    text += markdown_row({code(option.flag()), code(option.default_text), code(option.range_text()),
                          option.unit, option.symbol, option.help});
  }
  return text;
}

std::string text_table() {
  Table table({"name", "title", "kind", "paper"});
  for (const auto& [info, make] : algorithms()) {
    table.add({info.name, info.title, info.synchronous ? "sync" : "async", info.paper});
  }
  return table.format(TableFormat::text);
}

// The README's table, as scripts/update-readme.sh puts it there.
std::string markdown_table() {
  std::string text = "| name | idea | paper | options of its own |\n|---|---|---|---|\n";
  for (const RegisteredAlgorithm& each : algorithms()) {
    const Described one(each);
    std::string flags;
    for (const Option& option : one.set.options()) {
      flags += (flags.empty() ? "" : ", ") + code(option.flag());
    }
    text += markdown_row({code(one.info.name), one.info.idea, one.info.paper, flags});
  }
  return text;
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
                   {{"text", ListFormat::text},
                    {"markdown", ListFormat::markdown},
                    {"json", ListFormat::json}},
                   "how to print");
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    fmt::print("{}", operands.empty() ? table() : detail(find_algorithm(operands[0])));
    return 0;
  }

 private:
  std::string table() const {
    if (format_ == ListFormat::text) return text_table();
    if (format_ == ListFormat::markdown) return markdown_table();
    Json all = Json::array();
    for (const RegisteredAlgorithm& each : algorithms()) all.push_back(algorithm_json(each));
    return all.dump(2) + "\n";
  }

  std::string detail(const RegisteredAlgorithm& one) const {
    if (format_ == ListFormat::text) return detail_text(one);
    if (format_ == ListFormat::markdown) return detail_markdown(one);
    return algorithm_json(one).dump(2) + "\n";
  }

  ListFormat format_ = ListFormat::text;
};

}  // namespace

std::unique_ptr<Command> make_algorithms() { return std::make_unique<Algorithms>(); }

}  // namespace hetsgd
