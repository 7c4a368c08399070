// Text: numbers, sizes and times as people type them, and as people read them.
//
// Parsing : the whole text must match; numbers go through std::from_chars, so no locale has a say.
//           The first parameter, `option`, is what the text was given for and opens every message:
//             --max-time: found "5x", expected a time such as 90s, 50ms or 1.5h
// Throws  : Error(usage), in all parse functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

// --- parsing -----------------------------------------------------------------------------------
// A finite number, "0.5" or "1e-3", within [min, max].
double parse_double(std::string_view option, std::string_view text,
                    double min = std::numeric_limits<double>::lowest(),
                    double max = std::numeric_limits<double>::max());
// A whole number within [min, max].
std::int64_t parse_integer(std::string_view option, std::string_view text,
                           std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                           std::int64_t max = std::numeric_limits<std::int64_t>::max());
// Samples, steps, epochs: decimal suffixes, "10K" = 10,000, "1.5M" = 1,500,000, also G. Whole, >=
// 0.
std::uint64_t parse_count(std::string_view option, std::string_view text);
// Bytes: binary suffixes as in nccl-tests, "64K" = "64KiB" = 65,536, also M, G, T. Whole, >= 0.
std::uint64_t parse_bytes(std::string_view option, std::string_view text);
// A duration >= 0: ns, us, ms, s, m (or min), h, d. A bare number is seconds.
Seconds parse_seconds(std::string_view option, std::string_view text);
// "true", "false" (also yes/no, on/off, 1/0).
bool parse_bool(std::string_view option, std::string_view text);
// "1,0.92,0.84": comma-separated parse_double.
std::vector<double> parse_doubles(std::string_view option, std::string_view text,
                                  double min = std::numeric_limits<double>::lowest(),
                                  double max = std::numeric_limits<double>::max());
// "0-3;5" or "all": ranks of `size` workers, ascending, each once.
std::vector<int> parse_rank_set(std::string_view option, std::string_view text, int size);
// The inverse: "0-3;5". `ranks` ascending.
std::string format_rank_set(std::span<const int> ranks);

// --- for people --------------------------------------------------------------------------------
std::string format_seconds(Seconds time);  // "850 us", "12.3 ms", "1.25 s", "2m 05s", "1h 02m"
std::string format_bytes(double bytes);    // "512 B", "1.5 KiB", "42.6 MiB"
std::string format_count(double count);    // "9,999" exact, then "12.9K", "1.29M", "3.4G"
// A "found" text for messages: in double quotes, escaped as by printable(), with at most 60 bytes
// shown.
std::string quote(std::string_view text);
// "a, b or c".
std::string alternatives(std::span<const std::string> words);

// --- spelling ----------------------------------------------------------------------------------
// The number of insertions, deletions, replacements and swaps of neighbours that turn a into b
// (optimal string alignment, the restricted Damerau-Levenshtein distance).
std::size_t edit_distance(std::string_view a, std::string_view b);
// The candidate that `word` most likely meant, first one on ties; none if all are too far (more
// than a third of the letters) and none begins with it. Case, '-' and '_' do not count.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);
// `did you mean "adaptive"?`, or empty: ready for with_hint.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// The text with A to Z in lower case.
std::string lower(std::string_view text);

// --- splitting ---------------------------------------------------------------------------------
// The parts between separators, empty ones included; "" gives one empty part. Views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
// The text without blanks, tabs and line ends at both ends.
std::string_view trim(std::string_view text);

// --- bytes -------------------------------------------------------------------------------------
// Texts from outside are bytes: file names, options and keys may hold anything. Here they become
// texts that JSON can hold and that a terminal can show.

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
