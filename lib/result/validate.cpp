#include "result/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

// The parsed schema. It is parsed once, because a comparison checks hundreds of files.
const valijson::Schema& parsed_schema(std::string_view schema) {
  static std::mutex mutex;
  static std::map<std::string_view, valijson::Schema> schemas;
  const std::lock_guard lock(mutex);
  const auto [place, fresh] = schemas.try_emplace(schema);
  if (fresh) {
    const json text = json::parse(schema);
    valijson::SchemaParser(valijson::SchemaParser::kDraft7)
        .populateSchema(NlohmannJsonAdapter(text), place->second);
  }
  return place->second;
}

// valijson's context is {"<root>", "[curve]", "[3]", "[time_s]"}.
std::string pointer_of(const std::vector<std::string>& context) {
  json::json_pointer pointer;
  for (const std::string& part : context) {
    if (part.size() >= 2 && part.front() == '[') pointer /= part.substr(1, part.size() - 2);
  }
  return pointer.to_string();
}

// valijson's integers are int64, so a larger count such as a seed would be negative there.
constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

bool has_larger_count(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() > kLargest;
  return value.is_structured() && std::ranges::any_of(value, has_larger_count);
}

void limit_counts(json& value) {
  if (value.is_number_unsigned()) {
    value = std::min(value.get<std::uint64_t>(), kLargest);
  } else if (value.is_structured()) {
    for (json& member : value) limit_counts(member);
  }
}

}  // namespace

std::vector<Finding> check_schema(std::string_view schema, const json& document) {
  if (has_larger_count(document)) {
    json limited = document;
    limit_counts(limited);
    return check_schema(schema, limited);
  }
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults errors;
  std::vector<Finding> findings;
  const NlohmannJsonAdapter target(document);
  if (validator.validate(parsed_schema(schema), target, &errors)) return findings;
  for (const auto& error : errors) {
    findings.push_back({pointer_of(error.context), error.description});
  }
  // The innermost finding is the most specific one, so it comes first.
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) {
    return split(a.pointer, '/').size() > split(b.pointer, '/').size();
  });
  return findings;
}

std::vector<Finding> validate_result(const json& result) {
  std::vector<Finding> findings = check_schema(result_schema(), result);
  if (findings.empty()) check_semantics(result, findings);  // relies on the shape
  return findings;
}

std::string other_kind(const json& document) {
  static const json kMarks = json::parse(file_kinds());
  if (!document.is_object() || document.contains("curve")) return "";
  if (document.contains("kind") && document["kind"].is_string()) return document["kind"];
  for (const auto& [key, kind] : kMarks.items()) {
    if (document.contains(key)) return kind;
  }
  return "";
}

json read_result(const std::string& path) {
  json result = read_json(path);
  if (const std::string kind = other_kind(result); !kind.empty()) {
    throw data_error("{}: found a {}, expected a result of hetsgd train", path, kind);
  }
  const std::vector<Finding> findings = validate_result(result);
  if (!findings.empty()) {
    throw with_hint(data_error("{}: not a valid result: {}", path, findings.front().line()),
                    fmt::format("hetsgd validate {} lists all {} findings", path, findings.size()));
  }
  return result;
}

}  // namespace hetsgd
