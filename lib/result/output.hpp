// The last steps of every JSON document. Values that JSON cannot hold are replaced, private names
// are redacted, and the text is written so that a reader never sees half of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

// {name, version, git_revision, git_dirty} of this program, which every document has under `tool`.
nlohmann::json tool_json();

// Replaces each number in `value` that is not finite by null, with the reason beside it:
// {"test_loss": null, "test_loss_reason": "nan"}. In lists the reason is beside the list: {"norm":
// [1.0, null], "norm_reason": "inf"}.
void explain_nonfinite(nlohmann::json& value);

// Replaces each text in `value` that is not UTF-8, including keys, by its json_text
// (core/text.hpp).
void escape_bytes(nlohmann::json& value);

// Removes the folders of all paths in all texts of `value`: "--train=/data/a.txt" becomes
// "--train=a.txt".
void redact_paths(nlohmann::json& value);

// Applies --redact to a result in place. Every path becomes its last part, and every host "host N".
// It keeps which workers share a host, and all measurements.
void redact(nlohmann::json& result);

// The document as text: one line per top-level key and per element of the long lists (curve,
// events, workers ...), so that files can be compared line by line. Ends with a newline.
std::string result_text(const nlohmann::json& result);

// Writes result_text(result) to `path` through a temporary file in the same folder: write, fsync,
// rename, fsync of the folder. If any step fails, a previous file stays intact. A stream
// (core/output_file.hpp: "-", a pipe, a device) is written directly. Throws Error(runtime) naming
// the path and the reason (full disk, no permission, missing folder). Without `durable` it skips
// both fsyncs, which may take seconds on a busy disk. The file then survives the end of this
// process, but not a power cut.
void write_result(const std::string& path, const nlohmann::json& result, bool durable = true);
// The same for any text.
void write_text(const std::string& path, std::string_view text, bool durable = true);

}  // namespace hetsgd
