// The last steps of a document of ours: cleaned of what JSON cannot hold and of what nobody should
// read, put into text, and written so that a reader never sees half of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

// {name, version, git_revision, git_dirty} of this program, as every file of ours has it under
// `tool`.
nlohmann::json tool_json();

// Replaces each number in `value` that is not finite by null, with the reason beside it:
// {"test_loss": null, "test_loss_reason": "nan"}; in lists null stands in its place and the reason
// beside the list: {"norm": [1.0, null], "norm_reason": "inf"}.
void explain_nonfinite(nlohmann::json& value);

// Replaces each text in `value` that is not UTF-8, keys too, by its json_text (core/bytes.hpp).
void escape_bytes(nlohmann::json& value);

// Drops the folders of all paths in all texts of `value`: "--train=/data/a.txt" becomes
// "--train=a.txt".
void redact_paths(nlohmann::json& value);

// --redact of a result, in place: every path becomes its last part, every host "host N"; which
// workers share a host, and everything that was measured, stays.
void redact(nlohmann::json& result);

// The document as text: one line per top-level key and per element of the long lists (curve,
// events, workers ...), so that files can be compared line by line. Ends with a newline.
std::string result_text(const nlohmann::json& result);

// Writes result_text(result) to `path` by way of a temporary file in the same folder: write, fsync,
// rename, fsync of the folder. Whatever goes wrong, a file that was there before stays whole. A
// stream (core/output_file.hpp: "-", a pipe, a device) is written straight. Errors: runtime, naming
// the path and the reason (full disk, no permission, missing folder).
// durable: false leaves out both fsyncs, which take seconds while others write to the same disk: the
// file survives the end of this process as it is, but not a power cut.
void write_result(const std::string& path, const nlohmann::json& result, bool durable = true);
// The same for any text.
void write_text(const std::string& path, std::string_view text, bool durable = true);

}  // namespace hetsgd
