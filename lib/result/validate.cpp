#include "result/validate.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_fields.hpp"

namespace hetsgd {

using nlohmann::json;

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
  try {
    check_fields(path, result,
                 {"config object",
                  "config.algorithm text",
                  "config.seed count",
                  "args list",
                  "args[] text",
                  "status text",
                  "status_reason text?",
                  "plugins list?",
                  "plugins[] object",
                  "plugins[].name text",
                  "plugins[].file_hash text",
                  "segments list?",
                  "segments[] object",
                  "segments[].samples_count count",
                  "segments[].reason text",
                  "tuning object?",
                  "curve list",
                  "curve[] object",
                  "curve[].time_s number",
                  "curve[].samples_count count",
                  "curve[].updates count",
                  "curve[].prepare_s number?",
                  "curve[].wall_s number?",
                  "summary object",
                  "summary.samples_count count",
                  "summary.elapsed_s number",
                  "summary.best object",
                  "wall object",
                  "wall.total_s number"});
  } catch (const Error& error) {
    throw with_hint(error, "hetsgd validate FILE lists all that is wrong with a result");
  }
  return result;
}

}  // namespace hetsgd
