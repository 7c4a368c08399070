// The texts of --help, from the declarations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"

namespace hetsgd {

// hetsgd --help.
std::string program_help(const Commands& commands);
// hetsgd data --help: the commands whose names begin with the word and go on; "": none, or the word
// is a command itself.
std::string family_help(const std::string& word, const Commands& commands);
// hetsgd COMMAND --help: examples first, then the options for a first run, then the others by their
// groups. Of an option that cannot act with the values in `set`, only its name and what it needs.
enum class HelpExtent { acting, all };
std::string command_help(const CommandInfo& info, const OptionSet& set, HelpExtent extent);
// `text` in lines of at most 100 characters, all but the first indented; the first begins there.
std::string wrapped(const std::string& text, std::size_t indent);
// One option as two columns: spelling; help, unit, range, default.
std::string option_help(const Option& option);
// The same of a key of a text such as --straggler's: "max=TIME".
std::string key_help(const Option& option);

}  // namespace hetsgd
