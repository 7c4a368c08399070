// Texts from outside are bytes: file names, options and keys may hold anything. Here they become
// texts that JSON can hold and that a terminal can show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// The length of the UTF-8 sequence at the start of `text`, or 0 if there is none. Valid sequences
// are those of the Unicode standard (table 3-7: nothing overlong, no surrogates).
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

// `bytes` as a JSON text; bytes_of_json gives them back. UTF-8 stays as it is. If a byte is not
// UTF-8, or the text begins like an escaped one, the result is "bytes:" and the escaped text. There
// '%' and every byte that is not UTF-8 have the form %E9 (as in URLs). JSON (RFC 8259) is UTF-8
// only, while the names of files are bytes.
std::string json_text(std::string_view bytes);
std::vector<std::string> json_text(std::vector<std::string> list);
std::string bytes_of_json(std::string_view text);

enum class Lines { escape, keep };  // what printable does with newlines and tabs

// The text in a form that a terminal shows and does not obey. Control characters (U+0000 to U+001F,
// U+007F to U+009F) become \n, \t, \r, \x1b or \u009b, and bytes that are not UTF-8 become \xe9.
// All other text is kept.
std::string printable(std::string_view text, Lines lines = Lines::escape);

}  // namespace hetsgd
