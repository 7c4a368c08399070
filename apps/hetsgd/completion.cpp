// hetsgd completion bash|zsh: a completion script, from the declarations of all commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "algorithm/algorithm.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "model/registry.hpp"
#include "train_session.hpp"

namespace hetsgd {
namespace {

// The words that can follow a command's name, and those that can follow its flags.
struct Words {
  std::set<std::string> flags;
  std::map<std::string, std::string> values;  // flag -> choices, separated by blanks
};

void take_option(const Option& option, Words& words) {
  words.flags.insert(option.flag());
  if (!option.choices.empty()) {
    words.values[option.flag()] = fmt::format("{}", fmt::join(option.choices, " "));
  }
}

template <class Registered>
std::string names_of(const std::vector<Registered>& registered) {
  std::vector<std::string> names;
  for (const Registered& each : registered) names.push_back(each.info.name);
  return fmt::format("{}", fmt::join(names, " "));
}

Words words_of(Command& command) {
  Words words;
  words.flags.insert({"--help", "--help-all"});
  command.look_ahead({});
  OptionSet set;
  command.declare(set);
  for (const Option& option : set.options()) take_option(option, words);
  if (!words.flags.contains("--algorithm")) return words;
  for (const auto& all : {options_of_all_algorithms(), options_of_all_models()}) {
    for (const ForeignOption& foreign : all) take_option(foreign.option, words);
  }
  words.values["--algorithm"] = names_of(algorithms());
  words.values["--model"] = names_of(models());
  return words;
}

std::string bash_script() {
  std::set<std::string> first_words = {"--help", "--version"};
  std::map<std::string, std::set<std::string>> second_words;
  std::string cases;
  for (const auto& command : all_commands()) {
    const std::string name = command->info().name;
    const auto parts = split(name, ' ');
    first_words.emplace(parts[0]);
    if (parts.size() > 1) second_words[std::string(parts[0])].emplace(parts[1]);
    const Words words = words_of(*command);
    cases += fmt::format("    '{}')\n      case \"$previous\" in\n", name);
    for (const auto& [flag, choices] : words.values) {
      cases += fmt::format("        {}) words='{}' ;;\n", flag, choices);
    }
    cases += fmt::format("        *) words='{}' ;;\n      esac ;;\n", fmt::join(words.flags, " "));
  }
  std::string pairs;
  for (const auto& [first, words] : second_words) {
    pairs += fmt::format(
        "  if [ \"$command\" = {0} ]; then\n"
        "    if [ \"$COMP_CWORD\" -eq 2 ]; then words='{1}'; else command=\"{0} "
        "${{COMP_WORDS[2]}}\"; fi\n"
        "  fi\n",
        first, fmt::join(words, " "));
  }
  return fmt::format(
      "# hetsgd completion; use: source <(hetsgd completion bash)\n"
      "_hetsgd() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  local command=\"${{COMP_WORDS[1]}}\" words=''\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then command=''; words='{}'; fi\n"
      "{}"
      "  case \"$command\" in\n{}  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  if [ \"${{#COMPREPLY[@]}}\" -eq 0 ]; then COMPREPLY=($(compgen -f -- \"$current\")); fi\n"
      "}}\n"
      "complete -o filenames -F _hetsgd hetsgd\n",
      fmt::join(first_words, " "), pairs, cases);
}

class Completion final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "completion",
            .summary = "print a completion script for a shell",
            .examples = {"source <(hetsgd completion bash)", "source <(hetsgd completion zsh)"},
            .operands = "bash|zsh"};
  }

  void look_ahead(const std::vector<std::string>& arguments) override { load_plugins(arguments); }

  void declare(OptionSet& set) override {
    set.add("plugin", plugins_,
            "Shared library whose algorithms and models are completed, too. Repeat the option for "
            "several libraries.")
        .reads_file();
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (operands[0] != "bash" && operands[0] != "zsh") {
      refuse("completion", quote(operands[0]), "bash or zsh");
    }
    // zsh can run bash completions.
    if (operands[0] == "zsh") {
      fmt::print(
          "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n");
    }
    fmt::print("{}", bash_script());
    return 0;
  }

 private:
  std::vector<std::string> plugins_;
};

}  // namespace

const bool completion_registered = register_command<Completion>(CommandGroup::program, 1);

}  // namespace hetsgd
