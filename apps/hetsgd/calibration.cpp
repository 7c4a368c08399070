#include "calibration.hpp"

#include <fmt/format.h>

#include "core/logging.hpp"
#include "overwrite.hpp"
#include "result/output.hpp"

namespace hetsgd {

void show_fit(const Table& table, const std::string& source) {
  std::string text = table.format(TableFormat::text);
  text.pop_back();
  note("{}", text);
  note("{}", source);
}

void check_model_output(const std::string& output, bool overwrite) {
  if (output == "-") return;
  refuse_to_overwrite(output, overwrite);
  check_writable(output);
}

void write_model(const std::string& model, const std::string& output, const char* what) {
  if (output == "-") {
    fmt::print("{}", model);
    return;
  }
  write_text(output, model);
  note("{}: {}", what, output);
}

}  // namespace hetsgd
