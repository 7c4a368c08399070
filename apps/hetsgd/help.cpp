#include "help.hpp"

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "core/version.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kLeft = 34;  // width of the column of flags
constexpr std::size_t kWidth = 100;

std::string row(const std::string& left, const std::string& right) {
  const std::string text = wrapped(right, kLeft);
  if (left.size() + 2 > kLeft) return fmt::format("{}\n{:{}}{}\n", left, "", kLeft, text);
  return fmt::format("{:<{}}{}\n", left, kLeft, text);
}

// The explanation of an option: help, unit, symbol, range, default, and the conditions under which
// it has an effect: "Largest batch of one worker. Unit: samples; default: 256".
std::string explained(const Option& option) {
  std::string facts;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) facts += fmt::format("{}{}: {}", facts.empty() ? "" : "; ", name, value);
  };
  add("unit", option.unit);
  add("paper", option.symbol);
  add(option.choices.empty() ? "range" : "choices", option.range_text());
  if (!option.required.empty()) {
    add("required", "yes");
  } else if (option.default_text != "false") {
    add("default", option.default_text);
  }
  if (!option.needs.empty()) add("has an effect with", option.needs.back().text());
  if (facts.empty()) return option.help;
  facts.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(facts.front())));
  return fmt::format("{}{} {}", option.help, option.help.ends_with('.') ? "" : ".", facts);
}

constexpr const char* kFirstOptions = "Main options";

// One heading with its options. Options whose condition is not met are listed by name, one line per
// condition.
std::string group_help(const std::string& heading, const std::vector<const Option*>& options,
                       const OptionSet& set, HelpExtent extent) {
  std::string text;
  std::map<std::string, std::string> idle;  // flags by what they need
  for (const Option* const option : options) {
    const OptionNeed* const need = set.missing_need(*option);
    if (need == nullptr || extent == HelpExtent::all) {
      text += option_help(*option);
    } else {
      std::string& flags = idle[need->text()];
      flags += (flags.empty() ? "" : ", ") + option->flag();
    }
  }
  for (const auto& [need, flags] : idle) text += row(fmt::format("  with {}", need), flags);
  return fmt::format("\n{}:\n{}", heading, text);
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent) {
  const std::size_t width = kWidth - indent;
  std::string result;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (column > 0 && column + 1 + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) result += ' ';
    result += word;
    column += word.size() + (column > 0 ? 1 : 0);
  }
  return result;
}

std::string option_help(const Option& option) {
  const std::string letter = letter_of(option);
  std::string left = letter.empty() ? "      " : fmt::format("  {}, ", letter);
  left += option.flag();
  const std::string type = option.type == OptionType::choice ? "NAME" : option.type_text();
  if (!type.empty()) left += " " + type;
  return row(left, explained(option));
}

std::string key_help(const Option& option) {
  return row(fmt::format("      {}={}", option.name, option.type_text()), explained(option));
}

std::string command_help(const CommandInfo& info, const OptionSet& set, HelpExtent extent) {
  std::string text = fmt::format("hetsgd {}: {}\n\nExamples:\n", info.name, info.summary);
  for (const std::string& example : info.examples) text += fmt::format("  {}\n", example);
  text +=
      fmt::format("\nUsage: hetsgd {}{}{}\n", info.name, set.options().empty() ? "" : " [options]",
                  info.operands.empty() ? "" : " " + info.operands);
  std::vector<std::pair<std::string, std::vector<const Option*>>> groups = {{kFirstOptions, {}}};
  bool some_idle = false;
  for (const Option& option : set.options()) {
    some_idle = some_idle || set.missing_need(option) != nullptr;
    const std::string heading = option.group.empty() ? "Options" : option.group;
    if (groups.back().first != heading && !option.is_first) groups.push_back({heading, {}});
    (option.is_first ? groups.front() : groups.back()).second.push_back(&option);
  }
  for (const auto& [heading, options] : groups) {
    if (!options.empty()) text += group_help(heading, options, set, extent);
  }
  if (some_idle && extent == HelpExtent::acting) {
    text += fmt::format(
        "\nhetsgd {} --help-all also explains the options that have no effect here.\n", info.name);
  }
  return text;
}

std::string family_help(const std::string& word, const Commands& commands) {
  std::string rows;
  for (const auto& command : commands) {
    const CommandInfo info = command->info();
    if (info.name == word) return "";
    if (info.name.starts_with(word + " ")) rows += row("  " + info.name, info.summary);
  }
  if (rows.empty()) return "";
  return fmt::format(
      "Usage: hetsgd {0} COMMAND [options]\n\nCommands:\n{1}\n"
      "hetsgd {0} COMMAND --help lists the options of a command.\n",
      word, rows);
}

std::string program_help(const Commands& commands) {
  std::string text = fmt::format(
      "hetsgd {}: benchmarks distributed SGD on heterogeneous machines\n\n"
      "Examples:\n"
      "  hetsgd train --train generate:tiny --test generate:tiny --epochs 3 -o tiny.json\n"
      "  hetsgd train --train generate:tiny --test generate:tiny --algorithm adaptive \\\n"
      "      --workers 4 --speed 1,0.92,0.84,0.76 --epochs 10 --target 'p1>=0.5' -o adaptive.json\n"
      "  hetsgd compare tiny.json adaptive.json --target 'p1>=0.5'\n\n"
      "Usage: hetsgd COMMAND [options]\n",
      version());
  std::optional<CommandGroup> group;
  for (const auto& command : commands) {
    if (command->group() != group) text += fmt::format("\n{}:\n", to_string(command->group()));
    group = command->group();
    text += row("  " + command->info().name, command->info().summary);
  }
  text += row("  --version [--json]",
              "print the version, the compiler and the features of this binary");
  return text +
         "\nhetsgd COMMAND --help lists the options of a command. Options of train and tune can "
         "also\n"
         "be set by environment variables (HETSGD_BATCH_SIZE) or in a JSON file (--config, key\n"
         "batch_size). A flag overrides the environment, and the environment overrides the file.\n";
}

}  // namespace hetsgd
