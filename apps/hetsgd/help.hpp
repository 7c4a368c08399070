// The texts of --help, made from the declarations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"

namespace hetsgd {

// hetsgd --help.
std::string program_help(const Commands& commands);
// hetsgd data --help: the commands of two words that begin with this one; "" if there are none, or
// the word is a command itself.
std::string family_help(const std::string& word, const Commands& commands);
// hetsgd COMMAND --help: examples first, then the options for a first run, then the others by their
// groups. An option that has no effect with the values in `set` is given only by its name and its
// condition.
enum class HelpExtent { acting, all };
std::string command_help(const CommandInfo& info, const OptionSet& set, HelpExtent extent);
// Wraps `text` to lines of at most 100 characters. The first line is taken to begin at column
// `indent`, and the others are indented to it.
std::string wrapped(const std::string& text, std::size_t indent);
// One option in two columns: its spelling, and its help with unit, range and default.
std::string option_help(const Option& option);
// The same for a key of a text value, such as "max=TIME" in --straggler.
std::string key_help(const Option& option);

}  // namespace hetsgd
