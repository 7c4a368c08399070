#include "core/json_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The place of the byte at `at` (counted from 0): "p.json:2:11".
std::string place_of(std::string_view text, std::size_t at, const std::string& place) {
  const std::string_view before = text.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  return fmt::format("{}:{}:{}", place, lines + 1,
                     newline == std::string_view::npos ? at + 1 : at - newline);
}

// The first byte after a comment that begins at `at`.
std::size_t end_of_comment(std::string_view text, std::size_t at) {
  const bool line = text.substr(at).starts_with("//");
  const std::string_view last = line ? "\n" : "*/";
  const std::size_t end = text.find(last, at + 2);
  return end == std::string_view::npos ? text.size() : end + last.size();
}

// Refuses brackets that open more than kMostJsonLevels levels, and keys that an object has twice.
void check_structure(std::string_view text, const std::string& place, JsonComments comments) {
  std::vector<std::set<std::string_view>> keys;  // of the brackets that are open
  std::string_view last;                         // string
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t begin = i++;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      last = text.substr(begin, i - begin + 1);
    } else if (c == ':' && !keys.empty() && !last.empty()) {
      const std::string_view key = std::exchange(last, {});
      if (keys.back().insert(key).second) continue;
      refuse(place_of(text, static_cast<std::size_t>(key.data() - text.data()), place),
             fmt::format("key {} again", quote(key.substr(1, key.size() - 2))), "it once", "",
             ExitCode::data);
    } else if (c == '[' || c == '{') {
      keys.emplace_back();
      if (keys.size() <= kMostJsonLevels) continue;
      refuse(place_of(text, i, place),
             fmt::format("objects and lists nested more than {} levels deep", kMostJsonLevels),
             fmt::format("at most {} levels", kMostJsonLevels), "", ExitCode::data);
    } else if ((c == ']' || c == '}') && !keys.empty()) {
      keys.pop_back();
    } else if (c == '/' && comments == JsonComments::allowed && i + 1 < text.size()) {
      i = end_of_comment(text, i) - 1;
    }
  }
}

// The library's reader of a document, with our messages for mistakes.
class Reader : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  Reader(json& document, std::string_view text, const std::string& place)
      : json_sax_dom_parser(document, false), text_(text), place_(place) {}

  [[noreturn]] bool parse_error(std::size_t position, const std::string& token,
                                const json::exception& error) {
    const std::size_t at = position == 0 ? 0 : position - 1;
    if (dynamic_cast<const json::out_of_range*>(&error) != nullptr) {
      throw data_error("{}: found {}, a number too large for a double, expected JSON",
                       place_of(text_, position - std::min(position, token.size()), place_),
                       quote(token));
    }
    if (at >= text_.size()) {
      throw data_error("{}: found the end of the file, expected more JSON",
                       place_of(text_, text_.size(), place_));
    }
    throw data_error("{}: found {}, expected JSON", place_of(text_, at, place_),
                     quote(text_.substr(at, 1)));
  }

 private:
  std::string_view text_;
  const std::string& place_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& place, JsonComments comments) {
  check_structure(text, place, comments);
  json document;
  Reader reader(document, text, place);
  json::sax_parse(text.begin(), text.end(), &reader, json::input_format_t::json, true,
                  comments == JsonComments::allowed);
  return document;
}

json read_json(const std::string& path, JsonComments comments) {
  return parse_json(read_text_file(path, {.noun = "file"}, kMostJsonBytes), path, comments);
}

}  // namespace hetsgd
