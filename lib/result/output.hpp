// Writing a result so that a reader never sees half of one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

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
