// Is this JSON a result of hetsgd? By the published schema, and by what a schema cannot say.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// The JSON Schema (draft 7) of the result file: the text of schema.json.
std::string_view result_schema();

struct Finding {
  std::string pointer;  // JSON pointer (RFC 6901) to what is wrong; "" is the document
  std::string text;     // one sentence
};

// The violations of a JSON Schema (draft 7) by `document`, the innermost first. The text of the
// schema must live on.
std::vector<Finding> check_schema(std::string_view schema, const nlohmann::json& document);

// Everything that is wrong with `result`; empty: nothing.
// Beyond the schema: clocks, samples and updates of the curve never decrease; merges have one entry
// per worker and stand in the order of time; the workers' ranks are 0..P-1; their samples add up to
// the summary's when the run is over; a reached target was indeed reached on the curve, at that
// time and not before, on each of its clocks; the phases of host time add up to the whole, within
// 1 % and 20 ms; a null that replaces a number has its reason; a tuned run has its tuning's learning
// rate.
std::vector<Finding> validate_result(const nlohmann::json& result);
// The part beyond the schema (semantics.cpp), for a result of that shape: appends what is wrong.
void check_semantics(const nlohmann::json& result, std::vector<Finding>& findings);

// Keys that no result has, but another file of ours, with the kind of that file, as JSON:
// {"traceEvents": "trace", ...}. (A tuning says itself what it is.)
std::string_view file_kinds();
// The kind of a document of ours that is no result: "tuning", "trace", "device profile" ...; "": the
// document is a result, whole or broken, or nothing that we know.
std::string other_kind(const nlohmann::json& document);
// Reads a result file (core/json_file.hpp); what validate_result finds is an error too, the first
// finding in the message.
nlohmann::json read_result(const std::string& path);

}  // namespace hetsgd
