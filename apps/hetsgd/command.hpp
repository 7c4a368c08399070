// The interface of a subcommand: its name, its options, and its action.
//
// A new subcommand is one file in this folder: a class that derives from Command, and a line that
// registers it (below). The build, --help and the completion of shells find it. Its results go to
// stdout by say(), or by a Printer (printer.hpp), which has options for them. Remarks go to the log
// (core/logging.hpp). OPERANDS in tests/fuzz/command_line_draws.py has an example of its operands.
//
//   arguments --look_ahead()--> declare(set) --> the flags are read --> settle(set)
//     --> files of options and operands are checked --> run(set, operands) --> exit code
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/process_group.hpp"
#include "core/file_registry.hpp"
#include "core/options.hpp"

namespace hetsgd {

struct CommandInfo {
  std::string name;                        // as typed: "train", "data info"
  std::string summary;                     // one line, lower case, no full stop
  std::vector<std::string> examples = {};  // the first part of --help
  // The operands, which are arguments without a flag. Each is a word, in brackets if it may be
  // missing, with dots if there may be several: "FILE...", "[NAME]", "FROM TO".
  std::string operands = "";
};

// The purposes of commands, which are the headings of hetsgd --help, in this order.
enum class CommandGroup { run, results, data, catalogues, machines, program };
std::string_view to_string(CommandGroup group);

class Command {
 public:
  virtual ~Command() = default;
  virtual CommandInfo info() const = 0;
  // Called before declare, for commands whose options depend on their arguments.
  virtual void look_ahead(const std::vector<std::string>& /*arguments*/) {}
  virtual void declare(OptionSet& /*set*/) {}
  // A hint about a flag that this command does not have; "" if there is none.
  virtual std::string about_unknown(const std::string& /*flag*/) const { return ""; }
  // Whether several processes run the command together. Then rank 0 prints for all, and an error of
  // one is an error of all.
  virtual bool runs_together() const { return false; }
  // Called after the flags were read. Sets options from other sources (configuration file,
  // environment).
  virtual void settle(OptionSet& /*set*/) {}
  // How long processes wait for each other at the start, and later for a heartbeat.
  virtual Seconds peer_timeout() const { return kPeerTimeout; }
  // Adds the files that operands name, so that no output replaces them. By default every operand is
  // taken for a file to read; one that is a name does no harm. Files of options are known from
  // their declarations.
  virtual void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const;
  // Runs the command when `set` is settled and the files are checked. Returns the exit code.
  virtual int run(OptionSet& set, const std::vector<std::string>& operands) = 0;

  CommandGroup group() const { return group_; }
  void put_in(CommandGroup group) { group_ = group; }

 private:
  CommandGroup group_ = CommandGroup::program;
};

using Commands = std::vector<std::unique_ptr<Command>>;

// In a subcommand's own file, after its class:
//   const bool train_registered = register_command<Train>(CommandGroup::run, 1);
// `place` orders the commands of a group; no two of them have the same. Further arguments go to the
// constructor.
// register_commands() is for several commands of one class.
bool register_commands(CommandGroup group, int place, std::function<Commands()> make);
template <class T, class... Arguments>
bool register_command(CommandGroup group, int place, Arguments... arguments) {
  return register_commands(group, place, [=] {
    Commands one;
    one.push_back(std::make_unique<T>(arguments...));
    return one;
  });
}

// All subcommands, in the order of --help.
Commands all_commands();

// Reads the flags into `set` and returns the operands. Throws Error(usage); for an unknown flag it
// suggests the nearest spelling.
std::vector<std::string> parse_arguments(const Command& command, OptionSet& set,
                                         const std::vector<std::string>& arguments);
// For look_ahead(): reads only the flags of `set`, and ignores unknown or wrong arguments.
void scan_arguments(OptionSet& set, const std::vector<std::string>& arguments);

// Carries out one subcommand: prints --help, or parses, checks the files and runs. Some options
// mean the same for all commands: overwrite, resume, and print_config or dry_run, which write
// nothing.
int run_command(Command& command, const std::vector<std::string>& arguments);

// The short form of an option, such as "-o", which is the same for all commands; "" if it has none.
std::string letter_of(const Option& option);

}  // namespace hetsgd
