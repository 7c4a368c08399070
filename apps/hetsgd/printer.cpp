#include "printer.hpp"

#include "core/error.hpp"
#include "core/logging.hpp"
#include "result/output.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

std::string json_lines(nlohmann::json document) {
  escape_bytes(document);
  return document.dump(2) + "\n";
}

}  // namespace

Table table_of(const std::vector<Row>& rows) {
  const auto cells_of = [](const Row& row, auto part) {
    std::vector<std::string> cells;
    for (const auto& cell : row.shown()) cells.push_back(cell.*part);
    return cells;
  };
  using Cell = Row::Shown::value_type;
  Table table(cells_of(rows.at(0), &Cell::first));
  for (const Row& row : rows) table.add(cells_of(row, &Cell::second));
  return table;
}

nlohmann::json json_of(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back(row.kept());
  return list;
}

Table property_table(const Row& row) {
  Table table({"property", "value"});
  for (const auto& [heading, text] : row.shown()) table.add({heading, text});
  return table;
}

void print_json(nlohmann::json document) { fmt::print("{}", json_lines(std::move(document))); }

void log_table(const Table& table) {
  std::string text = table.format(OutputFormat::text);
  text.pop_back();
  log_info("{}", text);
}

void write_noted(const std::string& output, std::string_view text, std::string_view what) {
  write_text(output, text);
  if (output != "-") log_info("{}: {}", what, output);
}

void Printer::declare_format(OptionSet& set, const std::vector<OutputFormat>& formats) {
  static constexpr const char* kNames[] = {"text", "markdown", "csv", "json"};
  std::vector<std::pair<std::string, OutputFormat>> choices;
  for (const OutputFormat each : formats) {
    choices.emplace_back(kNames[static_cast<std::size_t>(each)], each);
  }
  format_ = formats.front();
  set.add_choice("format", format_, std::move(choices), "Format of the output.").not_in_config();
}

void Printer::declare_output(OptionSet& set, const std::string& what) {
  set.add("output", output_, "Output file; - is stdout.").writes_file(what);
  set.add("overwrite", overwrite_, "Replace an existing output file.");
}

void Printer::print(const std::string& text, std::string_view name) const {
  if (output_ == "-") return print_text(text);
  write_noted(output_, text, name);
}

void Printer::print(nlohmann::json document, std::string_view name) const {
  if (output_ == "-") return print_json(std::move(document));
  write_noted(output_, json_lines(std::move(document)), name);
}

}  // namespace hetsgd
