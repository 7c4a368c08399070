#include "experiment/spec_file.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostSpecBytes = 1 << 24;

class TomlReader {
 public:
  explicit TomlReader(SpecFile& file) : file_(file) {}

  json read(const toml::node& node, const JsonPointer& part) {
    note(part, node.source());
    if (const toml::table* const table = node.as_table()) return object(*table, part);
    if (const toml::array* const array = node.as_array()) {
      json result = json::array();
      for (std::size_t i = 0; i < array->size(); ++i) result.push_back(read((*array)[i], part / i));
      return result;
    }
    if (const auto* const text = node.as_string()) return text->get();
    if (const auto* const whole = node.as_integer()) return whole_number(whole->get());
    if (const auto* const number = node.as_floating_point()) return number->get();
    if (const auto* const truth = node.as_boolean()) return truth->get();
    refuse(file_.place(part), "a date or a time", "a text, a number, true or false");
  }

 private:
  // Notes the line of a part. The whole document and tables of dotted keys have no line of their
  // own.
  void note(const JsonPointer& part, const toml::source_region& source) {
    const auto line = static_cast<int>(source.begin.line);
    if (!part.empty() && line > 0) file_.lines[part.to_string()] = line;
  }

  json object(const toml::table& table, const JsonPointer& part) {
    json result = json::object();
    for (const auto& [key, value] : table) {
      const JsonPointer inner = part / std::string(key.str());
      result[std::string(key.str())] = read(value, inner);
      // A table's position is that of its header or brace. For other values an error names the line
      // of the key.
      if (!value.is_table() && !value.is_array_of_tables()) note(inner, key.source());
    }
    return result;
  }

  // Non-negative numbers become unsigned, because options read counts from JSON as unsigned.
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
      return i;  // the string is not closed, which the parser reports
    }
  }
  return text.size();
}

// Refuses keys with too many dots before the parser runs, which limits only brackets. Each dot
// nests a table, and code that walks the tables recurses once per level.
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
    return TomlReader(file).read(toml::parse(text, file.path), JsonPointer());
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

void replace_variables(json& value, const JsonPointer& part, const SpecFile& file) {
  if (value.is_string()) value = with_variables(value.get<std::string>(), file.place(part));
  if (!value.is_structured()) return;
  for (auto& [key, member] : value.items()) replace_variables(member, part / key, file);
}

}  // namespace

std::shared_ptr<const SpecFile> read_spec_file(const std::string& path) {
  auto file = std::make_shared<SpecFile>();
  file->path = path;
  file->code = ExitCode::usage;
  file->written =
      path.ends_with(".toml")
          ? parse_toml(read_text_file(path, {.noun = "specification"}, kMostSpecBytes), *file)
          : read_json(path, JsonComments::allowed);
  file->tree = file->written;
  if (!file->tree.is_object()) refuse(path, "no object", "the specification of a sweep");
  for (auto& [key, value] : file->tree.items()) {
    const bool is_free = std::ranges::find(kFreeKeys, key) != kFreeKeys.end();
    if (!is_free) replace_variables(value, JsonPointer() / key, *file);
  }
  return file;
}

}  // namespace hetsgd
