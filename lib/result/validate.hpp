// Reads result files back. The published schema (scripts/hetsgd/schemas/result.json) says what a
// whole valid result is, and `hetsgd validate` checks it. Readers here check the fields that they
// take.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

// Keys that results lack and other hetsgd files have, with the kind of that file, as JSON:
// {"traceEvents": "trace", ...}. A tuning is missing, because it states its kind itself.
std::string_view file_kinds();
// The kind of a hetsgd document that is no result: "tuning", "trace", "device profile", ...; "" if
// it is a result, valid or not, or unknown.
std::string other_kind(const nlohmann::json& document);
// Reads a result file (core/json_fields.hpp). Throws Error(data) for another kind of file, and for
// a result that lacks a field that --resume, rerun, a sweep or a tuning takes.
nlohmann::json read_result(const std::string& path);

}  // namespace hetsgd
