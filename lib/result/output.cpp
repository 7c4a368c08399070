#include "result/output.hpp"

#include <nlohmann/json.hpp>

#include "core/output_file.hpp"
#include "result/result.hpp"

namespace hetsgd {

void write_result(const std::string& path, const nlohmann::json& result, bool durable) {
  write_text(path, result_text(result), durable);
}

void write_text(const std::string& path, std::string_view text, bool durable) {
  OutputFile file(path, {.what = "the result", .durable = durable});
  file.write(text);
  file.commit();
}

}  // namespace hetsgd
