// Checks that a JSON document is a result of hetsgd, by the published schema and by rules that a
// schema cannot express.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// The JSON Schema (draft 7) of the result file: the text of schema.json.
std::string_view result_schema();

struct Finding {
  std::string pointer;  // JSON pointer (RFC 6901) to the mistake; "": the document
  std::string text;     // one sentence
  std::string line() const { return (pointer.empty() ? "/" : pointer) + ": " + text; }
};

// The violations of a JSON Schema (draft 7) by `document`, the innermost first. The text of
// `schema` must outlive the program's use, because its parsed form is kept.
std::vector<Finding> check_schema(std::string_view schema, const nlohmann::json& document);

// All mistakes in `result`; empty if there are none. The rules beyond the schema are:
// - clocks, samples and updates of the curve never decrease;
// - merges have one entry per worker, and are in order of time;
// - the workers' ranks are 0..P-1, and their samples add up to the summary's when the run is over;
// - a reached target was reached on the curve at that time and not before, on each of its clocks;
// - the phases of wall-clock time add up to the whole, within 1 % and 20 ms;
// - a null that replaces a number has its reason;
// - a tuned run has its tuning's learning rate.
std::vector<Finding> validate_result(const nlohmann::json& result);
// Appends the mistakes beyond the schema (semantics.cpp). The result must fit the schema.
void check_semantics(const nlohmann::json& result, std::vector<Finding>& findings);

// Keys that results lack and other hetsgd files have, with the kind of that file, as JSON:
// {"traceEvents": "trace", ...}. A tuning is missing, because it states its kind itself.
std::string_view file_kinds();
// The kind of a hetsgd document that is no result: "tuning", "trace", "device profile", ...; "" if
// it is a result, valid or not, or unknown.
std::string other_kind(const nlohmann::json& document);
// Reads a result file (core/json_file.hpp). If validate_result finds mistakes, the error names the
// first one.
nlohmann::json read_result(const std::string& path);

}  // namespace hetsgd
