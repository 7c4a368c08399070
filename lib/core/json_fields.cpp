#include "core/json_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
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

namespace {

using nlohmann::json;

// Upper bound of a file. A profile or a network is a page; nobody writes a megabyte of it.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;

std::string in_a_message(const json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  constexpr std::size_t kShown = 60;
  std::string text = value.dump();
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

bool is_within(const json& value, const FieldRange& range) {
  return value.is_number() && value.get<double>() >= range.min && value.get<double>() <= range.max;
}

// "numbers from 0 to 1000 s"
std::string range_text(std::string_view what, const FieldRange& range) {
  if (range.max == kNumbers.max) return std::string(what);
  return fmt::format("{} from {} to {}{}{}", what, range.min, range.max,
                     range.unit.empty() ? "" : " ", range.unit);
}

bool is_object(const json& value) { return value.is_object(); }
bool is_list_of_any(const json& value) { return value.is_array() && !value.empty(); }

template <class IsRight>
auto is_list_of(IsRight is_right) {
  return [is_right](const json& value) {
    return is_list_of_any(value) && std::ranges::all_of(value, is_right);
  };
}

}  // namespace

std::string path_text(JsonPointer part) {
  std::string text;
  for (; !part.empty(); part.pop_back()) {
    const std::string& key = part.back();
    const bool index = key.find_first_not_of("0123456789-") == std::string::npos;
    const bool joined = text.empty() || text.front() == '[';
    text = (index ? fmt::format("[{}]", key) : key) + (joined ? "" : ".") + text;
  }
  return text;
}

std::string first_difference_in(const json& a, const json& b) {
  if (a == b) return "";
  return path_text(JsonPointer(json::diff(a, b)[0]["path"].get<std::string>()));
}

std::string JsonDocument::place(const JsonPointer& part, JsonPointer line_of) const {
  auto line = lines.find(line_of.to_string());
  while (line == lines.end() && !line_of.empty()) {
    line_of.pop_back();
    line = lines.find(line_of.to_string());
  }
  std::string text = path;
  if (line != lines.end()) text += fmt::format(":{}", line->second);
  return part.empty() ? text : fmt::format("{}: {}", text, path_text(part));
}

JsonFields::JsonFields(std::shared_ptr<const JsonDocument> document, JsonPointer at,
                       const json& object)
    : document_(std::move(document)), at_(std::move(at)), object_(&object) {}

JsonFields::JsonFields(std::shared_ptr<const JsonDocument> document)
    : JsonFields(document, JsonPointer(), document->tree) {
  if (object_->is_object()) return;
  hetsgd::refuse(place(), in_a_message(*object_), "a JSON object", "", document_->code);
}

JsonFields::JsonFields(std::string place, std::string_view text)
    : JsonFields(std::make_shared<const JsonDocument>(
          JsonDocument{.path = place, .tree = parse_json(text, place, JsonComments::allowed)})) {}

JsonFields JsonFields::with(const json& object) const { return {document_, at_, object}; }

bool JsonFields::is_null(const std::string& key) const {
  return !has(key) || object_->at(key).is_null();
}

bool JsonFields::is_text(const std::string& key) const {
  return has(key) && object_->at(key).is_string();
}

bool JsonFields::is_list(const std::string& key) const {
  return has(key) && object_->at(key).is_array();
}

std::string JsonFields::place(const std::string& key) const {
  return document_->place(key.empty() ? at_ : at_ / key);
}

void JsonFields::refuse(const std::string& key, std::string_view expected, std::string hint) const {
  hetsgd::refuse(place(key), has(key) ? in_a_message(object_->at(key)) : "nothing", expected,
                 std::move(hint), document_->code);
}

void JsonFields::allow(std::span<const std::string> known) const {
  for (const auto& [key, value] : object_->items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    hetsgd::refuse(document_->place(at_, at_ / key), "key " + quote(key), alternatives(known),
                   did_you_mean(key, known), document_->code);
  }
}

template <class IsRight>
const json& JsonFields::value(const std::string& key, std::string_view expected,
                              IsRight is_right) const {
  const auto found = object_->find(key);
  if (found == object_->end() || !is_right(*found)) refuse(key, expected);
  return *found;
}

JsonFields JsonFields::object(const std::string& key) const {
  return {document_, at_ / key, value(key, "an object", is_object)};
}

std::vector<JsonFields> JsonFields::objects(const std::string& key) const {
  const json& all = value(key, "a list of objects", is_list_of_any);
  std::vector<JsonFields> inner;
  for (const json& each : all) {
    const JsonFields& fields =
        inner.emplace_back(JsonFields(document_, at_ / key / inner.size(), each));
    if (is_object(each)) continue;
    hetsgd::refuse(fields.place(), in_a_message(each), "an object", "", document_->code);
  }
  return inner;
}

JsonFields JsonFields::object_or_empty(const std::string& key) const {
  static const json kEmpty = json::object();
  return has(key) ? object(key) : JsonFields(document_, at_ / key, kEmpty);
}

std::vector<JsonFields> JsonFields::objects_or_none(const std::string& key) const {
  return has(key) ? objects(key) : std::vector<JsonFields>{};
}

std::string JsonFields::text(const std::string& key) const {
  return value(key, "a text", [](const json& each) { return each.is_string(); });
}

std::string JsonFields::text(const std::string& key, const std::string& default_value) const {
  return has(key) ? text(key) : default_value;
}

double JsonFields::number(const std::string& key, const FieldRange& range) const {
  return value(key, range_text("a number", range),
               [&](const json& each) { return is_within(each, range); });
}

double JsonFields::number(const std::string& key, double default_value) const {
  return has(key) ? number(key) : default_value;
}

std::optional<double> JsonFields::number_or_none(const std::string& key,
                                                 const FieldRange& range) const {
  return is_null(key) ? std::nullopt : std::optional(number(key, range));
}

int JsonFields::whole_number(const std::string& key, const FieldRange& range,
                             int default_value) const {
  if (!has(key)) return default_value;
  return value(key, range_text("a whole number", range), [&](const json& each) {
    return each.is_number_integer() && is_within(each, range);
  });
}

std::uint64_t JsonFields::count(const std::string& key, std::uint64_t least,
                                std::uint64_t default_value) const {
  if (!has(key)) return default_value;
  return value(key, fmt::format("a whole number of at least {}", least), [&](const json& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() >= least;
  });
}

bool JsonFields::boolean(const std::string& key, bool default_value) const {
  if (!has(key)) return default_value;
  return value(key, "true or false", [](const json& each) { return each.is_boolean(); });
}

const json& JsonFields::list(const std::string& key) const {
  return value(key, "a list with at least one entry", is_list_of_any);
}

std::vector<double> JsonFields::numbers(const std::string& key, const FieldRange& range,
                                        std::vector<double> default_value) const {
  if (!has(key)) return default_value;
  return value(key, range_text("a list of numbers", range),
               is_list_of([range](const json& each) { return is_within(each, range); }));
}

std::vector<std::string> JsonFields::texts(const std::string& key) const {
  return value(key, "a list of texts",
               is_list_of([](const json& each) { return each.is_string(); }));
}

std::size_t JsonFields::choice(const std::string& key, std::span<const std::string> choices,
                               std::size_t default_choice) const {
  if (!has(key)) return default_choice;
  const auto found = std::find(choices.begin(), choices.end(), object_->at(key));
  if (found == choices.end()) refuse(key, alternatives(choices));
  return static_cast<std::size_t>(found - choices.begin());
}

JsonFields find_json_file(std::string_view place, std::string_view noun,
                          const std::string& name_or_path,
                          const std::vector<BuiltinFile>& builtin) {
  for (const BuiltinFile& file : builtin) {
    if (file.name == name_or_path)
      return {fmt::format("built-in {} {}", noun, file.name), file.text};
  }
  const bool is_path = name_or_path.find('/') != std::string::npos ||
                       name_or_path.ends_with(".json") || std::filesystem::exists(name_or_path);
  std::vector<std::string> expected = names_of(builtin);
  expected.emplace_back("a JSON file");
  if (!is_path) {
    refuse(place, quote(name_or_path), alternatives(expected),
           did_you_mean(name_or_path, names_of(builtin)));
  }
  const std::string file = fmt::format("JSON file for {}", place);
  return {name_or_path, read_text_file(name_or_path, {.noun = file}, kMostBytes)};
}

std::vector<std::string> names_of(const std::vector<BuiltinFile>& files) {
  std::vector<std::string> names;
  for (const BuiltinFile& file : files) names.emplace_back(file.name);
  return names;
}

namespace {

bool is_of_kind(const json& value, std::string_view kind) {
  if (kind == "object") return value.is_object();
  if (kind == "list") return value.is_array();
  if (kind == "text") return value.is_string();
  if (kind == "number") return value.is_number();
  if (kind == "count") return value.is_number_integer() && value >= 0;
  HETSGD_CHECK(kind == "boolean");
  return value.is_boolean();
}

// Checks the field `rest` of `value`, which lies at `place`.
void check_field(const std::string& place, const json& value, std::string_view rest,
                 std::string_view kind) {
  if (rest.empty()) {
    const bool optional = kind.ends_with('?');
    if (optional) kind.remove_suffix(1);
    if ((optional && value.is_null()) || is_of_kind(value, kind)) return;
    refuse(place, value.is_null() ? "nothing" : in_a_message(value),
           fmt::format("{} {}", kind == "object" ? "an" : "a", kind), "", ExitCode::data);
  }
  if (rest.starts_with("[]")) {
    if (value.is_null()) return;  // an optional list, whose own field says so
    rest.remove_prefix(rest.starts_with("[].") ? 3 : 2);
    for (std::size_t i = 0; i < value.size(); ++i) {
      check_field(fmt::format("{}[{}]", place, i), value[i], rest, kind);
    }
    return;
  }
  const std::size_t end = std::min(rest.find_first_of(".["), rest.size());
  const std::string key(rest.substr(0, end));
  rest.remove_prefix(rest.substr(end).starts_with('.') ? end + 1 : end);
  static const json kNothing;
  const bool there = value.is_object() && value.contains(key);
  const std::string separator = place.ends_with(": ") ? "" : ".";
  check_field(place + separator + key, there ? value[key] : kNothing, rest, kind);
}

}  // namespace

void check_fields(const std::string& path, const json& document,
                  std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) {
    const std::size_t blank = field.rfind(' ');
    check_field(path + ": ", document, field.substr(0, blank), field.substr(blank + 1));
  }
}

}  // namespace hetsgd
