#include "calibration.hpp"

#include "core/logging.hpp"
#include "result/output.hpp"

namespace hetsgd {

void show_fit(const Table& table, const std::string& source) {
  std::string text = table.format(TableFormat::text);
  text.pop_back();
  log_info("{}", text);
  log_info("{}", source);
}

void write_model(const std::string& model, const std::string& output, const char* what) {
  write_text(output, model);
  if (output != "-") log_info("{}: {}", what, output);
}

}  // namespace hetsgd
