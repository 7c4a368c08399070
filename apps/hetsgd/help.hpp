// The texts of --help, from the declarations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"

namespace hetsgd {

// hetsgd --help.
std::string program_help(const std::vector<std::unique_ptr<Command>>& commands);
// hetsgd COMMAND --help: examples first.
std::string command_help(const CommandInfo& info, const OptionSet& set);
// One option as two columns: spelling; help, unit, range, default.
std::string option_help(const Option& option);

}  // namespace hetsgd
