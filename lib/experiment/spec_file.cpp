#include "experiment/spec_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_file.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostSpecBytes = 1 << 24;

// Of a key inside a JSON pointer (RFC 6901).
std::string escaped(std::string_view key) {
  std::string result;
  for (const char c : key) {
    result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return result;
}

class TomlReader {
 public:
  explicit TomlReader(SpecFile& file) : file_(file) {}

  json read(const toml::node& node, const std::string& pointer) {
    file_.lines[pointer] = static_cast<int>(node.source().begin.line);
    if (const toml::table* const table = node.as_table()) return object(*table, pointer);
    if (const toml::array* const array = node.as_array()) {
      json result = json::array();
      for (std::size_t i = 0; i < array->size(); ++i) {
        result.push_back(read((*array)[i], fmt::format("{}/{}", pointer, i)));
      }
      return result;
    }
    if (const auto* const text = node.as_string()) return text->get();
    if (const auto* const whole = node.as_integer()) return whole_number(whole->get());
    if (const auto* const number = node.as_floating_point()) return number->get();
    if (const auto* const truth = node.as_boolean()) return truth->get();
    throw usage_error("{}: found a date or a time, expected a text, a number, true or false",
                      file_.place(pointer));
  }

 private:
  json object(const toml::table& table, const std::string& pointer) {
    json result = json::object();
    for (const auto& [key, value] : table) {
      const std::string inner = fmt::format("{}/{}", pointer, escaped(key.str()));
      result[std::string(key.str())] = read(value, inner);
      // A table's own position is that of its header or brace; what is wrong with a key is said of
      // the line on which the key stands.
      if (!value.is_table() && !value.is_array_of_tables()) {
        file_.lines[inner] = static_cast<int>(key.source().begin.line);
      }
    }
    return result;
  }

  // Counts are unsigned wherever options take them from JSON.
  static json whole_number(std::int64_t value) {
    if (value >= 0) return static_cast<std::uint64_t>(value);
    return value;
  }

  SpecFile& file_;
};

// The first byte behind the TOML string that begins at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const std::string mark = text.substr(at).starts_with(three) ? three : std::string(1, quote);
  for (std::size_t i = at + mark.size(); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text.substr(i).starts_with(mark)) {
      return i + mark.size();
    } else if (mark.size() == 1 && text[i] == '\n') {
      return i;  // not closed: the parser says so
    }
  }
  return text.size();
}

// A dotted key is a table inside a table, and what walks through tables calls itself once per level:
// refused before the parser, which limits brackets alone.
void check_dotted_keys(std::string_view text, const std::string& path) {
  constexpr std::string_view kOutsideKeys = "=,[]{}\n";
  int dots = 0;
  std::ptrdiff_t line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t next = i + 1;
    if (c == '"' || c == '\'') next = end_of_string(text, i);
    if (c == '#') next = std::min(text.find('\n', i), text.size());
    if (c == '.') ++dots;
    if (kOutsideKeys.find(c) != std::string_view::npos) dots = 0;
    if (dots >= kMostJsonLevels) {
      throw data_error("{}:{}: found a key of more than {} parts, expected at most {}", path, line,
                       kMostJsonLevels, kMostJsonLevels);
    }
    line += std::ranges::count(text.substr(i, next - i), '\n');
    i = next;
  }
}

json parse_toml(const std::string& text, SpecFile& file) {
  check_dotted_keys(text, file.path);
  try {
    return TomlReader(file).read(toml::parse(text, file.path), "");
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw data_error("{}:{}:{}: {}", file.path, at.line, at.column, error.description());
  }
}

std::string with_variables(const std::string& text, const std::string& place) {
  std::string result;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = text.find("${", at);
    const std::size_t end = begin == std::string::npos ? begin : text.find('}', begin);
    if (end == std::string::npos) return result + text.substr(at);
    const std::string name = text.substr(begin + 2, end - begin - 2);
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) {
      throw with_hint(usage_error("{}: found ${{{}}}, which is not set", place, name),
                      fmt::format("export {}=...", name));
    }
    result += text.substr(at, begin - at) + value;
    at = end + 1;
  }
}

void replace_variables(json& value, const std::string& pointer, const SpecFile& file) {
  if (value.is_string()) {
    value = with_variables(value.get<std::string>(), file.place(pointer));
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      replace_variables(value[i], fmt::format("{}/{}", pointer, i), file);
    }
  } else if (value.is_object()) {
    for (auto& [key, member] : value.items()) {
      replace_variables(member, fmt::format("{}/{}", pointer, escaped(key)), file);
    }
  }
}

const json& empty_table() {
  static const json kEmpty = json::object();
  return kEmpty;
}

std::string shown_value(const json& value) {
  return quote(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

bool is_free_key(std::string_view key) {
  return std::ranges::find(kFreeKeys, key) != kFreeKeys.end();
}

std::string SpecFile::place(const std::string& pointer) const {
  std::string text;
  for (const std::string_view part : split(pointer, '/')) {
    if (part.empty()) continue;
    const bool index = part.find_first_not_of("0123456789") == std::string_view::npos;
    text += index ? fmt::format("[{}]", part) : fmt::format("{}{}", text.empty() ? "" : ".", part);
  }
  const auto line = lines.find(pointer);
  const std::string where =
      line == lines.end() || line->second == 0 ? path : fmt::format("{}:{}", path, line->second);
  return text.empty() ? where : fmt::format("{}: {}", where, text);
}

SpecFile read_spec_file(const std::string& path) {
  SpecFile file{.path = path, .written = {}, .tree = {}, .lines = {}};
  file.written =
      path.ends_with(".toml")
          ? parse_toml(read_text_file(path, {.noun = "specification"}, kMostSpecBytes), file)
          : read_json(path, JsonComments::allowed);
  if (!file.written.is_object()) {
    throw usage_error("{}: expected a JSON object, the specification of a sweep", path);
  }
  file.tree = file.written;
  for (auto& [key, value] : file.tree.items()) {
    if (!is_free_key(key)) replace_variables(value, "/" + escaped(key), file);
  }
  return file;
}

std::string SpecTable::place(const std::string& key) const {
  return file_->place(key.empty() ? pointer_ : fmt::format("{}/{}", pointer_, escaped(key)));
}

void SpecTable::allow(std::initializer_list<std::string_view> known) const {
  const std::vector<std::string> words(known.begin(), known.end());
  for (const auto& [key, value] : tree_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw with_hint(usage_error("{}: unknown key, expected one of {}", place(key),
                                fmt::format("{}", fmt::join(words, ", "))),
                    did_you_mean(key, words));
  }
}

void SpecTable::refuse(const std::string& key, std::string_view expected) const {
  if (!has(key)) throw usage_error("{}: {} is missing, expected {}", place(), key, expected);
  throw usage_error("{}: found {}, expected {}", place(key), shown_value(tree_->at(key)), expected);
}

std::string SpecTable::text(const std::string& key) const {
  if (!has(key) || !tree_->at(key).is_string()) refuse(key, "a text");
  return tree_->at(key);
}

std::string SpecTable::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

double SpecTable::number(const std::string& key) const {
  if (!has(key) || !tree_->at(key).is_number() || !std::isfinite(tree_->at(key).get<double>())) {
    refuse(key, "a number");
  }
  return tree_->at(key);
}

double SpecTable::number(const std::string& key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

std::uint64_t SpecTable::count(const std::string& key, std::uint64_t otherwise,
                               double least) const {
  if (!has(key)) return otherwise;
  const json& value = tree_->at(key);
  if (!value.is_number_unsigned() || value.get<double>() < least) {
    refuse(key, fmt::format("a whole number of at least {}", least));
  }
  return value;
}

bool SpecTable::boolean(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!tree_->at(key).is_boolean()) refuse(key, "true or false");
  return tree_->at(key);
}

const json& SpecTable::list(const std::string& key) const {
  if (!has(key) || !tree_->at(key).is_array() || tree_->at(key).empty()) {
    refuse(key, "a list with at least one entry");
  }
  return tree_->at(key);
}

SpecTable SpecTable::table(const std::string& key) const {
  const std::string inner = fmt::format("{}/{}", pointer_, escaped(key));
  if (!has(key)) return {*file_, inner, empty_table()};
  if (!tree_->at(key).is_object()) refuse(key, "a table");
  return {*file_, inner, tree_->at(key)};
}

std::vector<SpecTable> SpecTable::tables(const std::string& key) const {
  std::vector<SpecTable> result;
  if (!has(key)) return result;
  const json& all = list(key);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_object()) refuse(key, "a list of tables");
    result.emplace_back(*file_, fmt::format("{}/{}/{}", pointer_, escaped(key), i), all[i]);
  }
  return result;
}

}  // namespace hetsgd
