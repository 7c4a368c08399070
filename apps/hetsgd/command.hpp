// A subcommand: its name, its options, and what it does. One file per subcommand, which registers it.
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
  std::vector<std::string> examples = {};  // what --help opens with
  // What follows without a flag: a word for each operand, in brackets if it may be missing, with dots
  // if there may be several: "FILE...", "[NAME]", "FROM TO".
  std::string operands = "";
};

// What people do with a command: the headings of hetsgd --help, in this order.
enum class CommandGroup { run, results, data, catalogues, machines, program };
std::string_view to_string(CommandGroup group);

class Command {
 public:
  virtual ~Command() = default;
  virtual CommandInfo info() const = 0;
  // Called before declare, for commands whose options depend on their arguments.
  virtual void look_ahead(const std::vector<std::string>& arguments) {
    static_cast<void>(arguments);
  }
  virtual void declare(OptionSet& set) { static_cast<void>(set); }
  // A hint about a flag that this command does not have; "": none.
  virtual std::string about_unknown(const std::string& flag) const {
    static_cast<void>(flag);
    return "";
  }
  // Several processes run it together: rank 0 speaks for all, and an error of one is an error of
  // all.
  virtual bool runs_together() const { return false; }
  // After the flags: what else sets options (configuration file, environment).
  virtual void settle(OptionSet& set) { static_cast<void>(set); }
  // Several processes run it together: how long they wait for each other at the start, and for a
  // heartbeat later.
  virtual Seconds peer_timeout() const { return kPeerTimeout; }
  // The files that operands name: each is read, unless a command says otherwise. Those of the
  // options are known from their declarations.
  virtual void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const;
  // When `set` is settled and the files are checked. Returns the exit code.
  virtual int run(OptionSet& set, const std::vector<std::string>& operands) = 0;

  CommandGroup group() const { return group_; }
  void put_in(CommandGroup group) { group_ = group; }

 private:
  CommandGroup group_ = CommandGroup::program;
};

using Commands = std::vector<std::unique_ptr<Command>>;

// In a subcommand's own file, after its class:
//   const bool train_registered = register_command<Train>(CommandGroup::run, 1);
// `place` orders the commands of a group; what follows goes to the constructor. The first form is for
// several commands that are made alike.
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

// Reads the flags into `set` and returns the operands. Errors: usage; an unknown flag gets the
// nearest spelling.
std::vector<std::string> parse_arguments(const Command& command, OptionSet& set,
                                         const std::vector<std::string>& arguments);
// For look_ahead: the flags of `set` and nothing else; whatever is unknown or wrong is passed over.
void scan_arguments(OptionSet& set, const std::vector<std::string>& arguments);

// The whole life of one subcommand: --help, or parse, check the files and run. The options that
// files depend on mean the same for all: overwrite, resume, and print_config or dry_run, which
// write nothing.
int run_command(Command& command, const std::vector<std::string>& arguments);

// The spelling of an option's letter, "-o"; the same letter means the same everywhere. "": none.
std::string letter_of(const Option& option);

}  // namespace hetsgd
