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
// `text` in lines of at most 100 characters, all but the first indented; the first begins there.
std::string wrapped(const std::string& text, std::size_t indent);
// One option as two columns: spelling; help, unit, range, default.
std::string option_help(const Option& option);

}  // namespace hetsgd
