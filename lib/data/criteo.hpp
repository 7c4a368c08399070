// The text of Criteo's click logs: lines `label \t I1 .. I13 \t C1 .. C26`, 40 columns. The label
// is 0 or 1; I are integers, which may be negative; C are 8 hexadecimal digits. I and C may be
// empty. Anything else is an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/fields.hpp"

namespace hetsgd {

// Tells by the number of tabs on the first line. Text without the first column, the labels, counts,
// so that parse_criteo() refuses it by its name.
bool is_criteo_text(std::string_view text);

// The rows of the text, read on up to `threads` threads. Throws Error(data) with file:line:column,
// the text found and what was expected; `path` names the file.
RawClicks parse_criteo(std::string_view text, const std::string& path, std::optional<int> threads);

// Appends a row as a line of Criteo's text, newline included.
void append_criteo_line(const RawClick& click, std::string& text);

}  // namespace hetsgd
