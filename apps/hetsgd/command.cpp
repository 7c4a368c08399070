#include "command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "help.hpp"
#include "ranks.hpp"

namespace hetsgd {
namespace {

constexpr const char* kOperands = "operands";

std::string flag_names(const Option& option) {
  std::string names = option.flag();
  if (const std::string letter = letter_of(option); !letter.empty()) names += "," + letter;
  if (option.type == OptionType::boolean) names += ",!--no-" + option.flag().substr(2);
  return names;
}

// Declares one CLI11 option per option. The values stay texts, which OptionSet parses.
void bind(CLI::App& app, const OptionSet& set) {
  app.set_help_flag("");
  app.allow_extras();
  for (const Option& option : set.options()) {
    if (option.type == OptionType::boolean) {
      app.add_flag(flag_names(option));
    } else {
      app.add_option(flag_names(option))
          ->expected(1)
          ->type_name("value")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
}

bool looks_like_flag(const std::string& text) { return text.size() > 2 && text.starts_with("--"); }

// Passes the values that CLI11 found to the options.
void take(const CLI::App& app, OptionSet& set) {
  for (const Option& option : set.options()) {
    const CLI::Option* const found = app.get_option(option.flag());
    if (found->count() == 0) continue;
    for (const std::string& text : found->results()) {
      if (looks_like_flag(text)) {
        refuse(option.flag(), "the option " + text, "a value");
      }
    }
    set.set(option.name, found->results(), OptionSource::flag, option.flag());
  }
}

// The flag whose initials were given, as other tools abbreviate: --learning-rate for --lr,
// --weight-decay for --wd. "" if there is none.
std::string by_initials(const std::string& flag, const std::vector<std::string>& known) {
  for (const std::string& each : known) {
    std::string initials = "--";
    const std::string_view words = std::string_view(each).substr(2);  // split() returns views
    for (const std::string_view word : split(words, '-')) initials += word.front();
    if (initials == flag) return each;
  }
  return "";
}

Error unknown_option(const Command& command, const OptionSet& set, const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  const std::string about = command.about_unknown(flag);
  std::vector<std::string> known = {"--help"};
  for (const Option& option : set.options()) known.push_back(option.flag());
  std::string best = by_initials(flag, known);
  if (best.empty()) best = nearest(flag, known).value_or("");
  return with_hint(usage_error("{}: unknown option", flag),
                   !about.empty() ? about
                   : !best.empty()
                       ? fmt::format("did you mean {}?", best)
                       : fmt::format("hetsgd {} --help lists the options", command.info().name));
}

// The least and the largest number of operands, by CommandInfo::operands.
std::pair<std::size_t, std::size_t> operand_counts(const std::string& operands) {
  if (operands.empty()) return {0, 0};
  const std::size_t words = split(operands, ' ').size();
  return {operands.starts_with('[') ? 0 : words,
          operands.find("...") == std::string::npos ? words : SIZE_MAX};
}

void check_operands(const CommandInfo& info, const std::vector<std::string>& operands) {
  const auto [least, most] = operand_counts(info.operands);
  if (operands.size() > most) {
    refuse(info.name, quote(operands[most]), info.operands.empty() ? "options only" : info.operands,
           fmt::format("hetsgd {} --help shows the usage", info.name));
  }
  if (operands.size() < least) {
    refuse(info.name, "too few operands", info.operands,
           info.examples.empty() ? "" : "for example " + info.examples.front());
  }
}

// Parses arguments in reverse order, as CLI11 expects them.
void parse_reversed(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  app.parse(std::move(arguments));
}

std::optional<HelpExtent> wanted_help(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return std::nullopt;
    if (argument == "-h" || argument == "--help") return HelpExtent::acting;
    if (argument == "--help-all") return HelpExtent::all;
  }
  return std::nullopt;
}

// Prints the help of a command. If the other arguments are wrong, it is the help for those that
// were read so far.
void print_help(const Command& command, OptionSet& set, const std::vector<std::string>& arguments,
                HelpExtent extent) {
  try {
    scan_arguments(set, arguments);
  } catch (const std::exception&) {
  }
  print_text(command_help(command.info(), set, extent));
}

struct Registered {
  CommandGroup group;
  int place;
  std::function<Commands()> make;
};

std::vector<Registered>& registered_commands() {
  static std::vector<Registered> all;
  return all;
}

bool is_on(const OptionSet& set, const char* name) {
  const Option* const option = set.find(name);
  return option != nullptr && option->to_json() == true;
}

// Checks the files. Under MPI rank 0 checks the files that it sees, and all ranks take its verdict.
void check_files(const Command& command, const OptionSet& set,
                 const std::vector<std::string>& operands) {
  if (is_on(set, "print_config") || is_on(set, "dry_run")) return;
  const auto check = [&] {
    FileRegistry files;
    files.add(set);
    command.add_operands(operands, files);
    files.check({.overwrite = is_on(set, "overwrite"),
                 .resume = is_on(set, "resume"),
                 .can_resume = set.find("resume") != nullptr});
  };
  if (command.runs_together()) {
    ProcessGroup& processes = join_launched_processes();
    processes.agree([&] {
      if (processes.is_root()) check();
    });
  } else {
    check();
  }
}

int parse_and_run(Command& command, const std::vector<std::string>& arguments) {
  command.look_ahead(arguments);
  OptionSet set;
  command.declare(set);
  if (const auto extent = wanted_help(arguments)) {
    print_help(command, set, arguments, *extent);
    return 0;
  }
  const std::vector<std::string> operands = parse_arguments(command, set, arguments);
  command.settle(set);
  if (command.runs_together()) {
    call_the_roll(command.info().name, set, command.peer_timeout());
  }
  check_files(command, set, operands);
  return command.run(set, operands);
}

}  // namespace

std::string_view to_string(CommandGroup group) {
  static constexpr std::string_view kNames[] = {
      "Train", "Read results", "Prepare data", "Explore", "Plan and measure machines", "Set up"};
  return kNames[static_cast<std::size_t>(group)];
}

bool register_commands(CommandGroup group, int place, std::function<Commands()> make) {
  registered_commands().push_back({group, place, std::move(make)});
  return true;
}

Commands all_commands() {
  std::vector<Registered> makers = registered_commands();
  std::ranges::sort(makers, {}, [](const Registered& r) { return std::pair(r.group, r.place); });
  Commands all;
  for (const Registered& each : makers) {
    for (auto& command : each.make()) {
      command->put_in(each.group);
      all.push_back(std::move(command));
    }
  }
  return all;
}

std::string letter_of(const Option& option) {
  static const std::map<std::string, std::string> letters = {
      {"output", "-o"}, {"min_bytes", "-b"},  {"max_bytes", "-e"},
      {"factor", "-f"}, {"iterations", "-n"}, {"warmup", "-w"}};  // as in nccl-tests
  const auto found = letters.find(option.name);
  return found == letters.end() ? "" : found->second;
}

std::vector<std::string> parse_arguments(const Command& command, OptionSet& set,
                                         const std::vector<std::string>& arguments) {
  CLI::App app;
  bind(app, set);
  app.add_option(kOperands)->expected(-1)->allow_extra_args()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
  parse_reversed(app, arguments);
  for (const std::string& extra : app.remaining()) {
    if (extra.size() > 1 && extra.front() == '-') throw unknown_option(command, set, extra);
  }
  take(app, set);
  const std::vector<std::string> operands = app.get_option(kOperands)->results();
  check_operands(command.info(), operands);
  return operands;
}

void scan_arguments(OptionSet& set, const std::vector<std::string>& arguments) {
  CLI::App app;
  bind(app, set);
  parse_reversed(app, arguments);
  take(app, set);
}

void Command::add_operands(const std::vector<std::string>& operands, FileRegistry& files) const {
  for (const std::string& operand : operands) files.add_input(info().name, operand);
}

int run_command(Command& command, const std::vector<std::string>& arguments) {
  // No option is read yet, so this asks for the default cluster.
  if (!command.runs_together()) return parse_and_run(command, arguments);
  start_log_as_rank();
  try {
    return parse_and_run(command, arguments);
  } catch (...) {
    // All processes arrive here, with the same error or with different ones. By now --cluster may
    // have named a cluster of this process alone, and then there is nothing to agree on.
    if (command.runs_together()) join_launched_processes().agree([] { throw; });
    throw;
  }
}

}  // namespace hetsgd
