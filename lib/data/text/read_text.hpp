// From a text to rows of tokens (--format text).
//
// Blocks : row r has the inputs rT .. rT + T - 1 and the targets behind each, with T = --block.
//          There are floor((n - 1) / T) rows of n tokens. With --augment shift each begins up to
//          T - 1 tokens later, the last as far as the text goes: the offsets of nanoGPT, but one in
//          every stretch of T tokens.
// Lines  : a row is a line. Its last target is the line's end, its first input the line end before
//          it. A line of more than T - 1 tokens becomes several rows. Empty lines are no rows.
// Kinds  : characters are numbered by code point, bytes by value. Words: 0 is unknown, 1 a line
//          end, then the words of the rows that are learnt from, the commonest first (ties by their
//          bytes). A byte order mark and carriage returns before line ends are dropped, but not
//          from bytes.
#pragma once

#include <string>
#include <string_view>

#include "data/load_options.hpp"

namespace hetsgd {

// Reads the text by options.text. The kinds of tokens are options.label_names if there are some,
// else those of this text. `path` names it in messages. Throws Error(data) with file, line and byte
// offset where they help.
ParsedData read_text(std::string_view bytes, const std::string& path, const LoadOptions& options);

}  // namespace hetsgd
