// The output of a command. Rows of cells give both the table for people and the JSON for programs.
// Options choose between the two, and the destination.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "result/table.hpp"

namespace hetsgd {

// A row of a table, and an object of JSON. A cell is shown in the table under a heading, kept in
// the JSON under a key, or both.
class Row {
 public:
  Row& show(std::string heading, std::string text) {
    shown_.emplace_back(std::move(heading), std::move(text));
    return *this;
  }
  Row& keep(const std::string& key, nlohmann::json value) {
    kept_[key] = std::move(value);
    return *this;
  }
  // One value for both. The table shows a number multiplied by `scale`. A missing value is "-" in
  // the table and null in the JSON.
  template <class T>
  Row& both(const std::string& heading, const std::string& key, const T& value,
            std::string_view format = "{}", double scale = 1) {
    if constexpr (std::is_floating_point_v<T>) {
      show(heading, fmt::format(fmt::runtime(format), scale * value));
    } else {
      show(heading, fmt::format(fmt::runtime(format), value));
    }
    return keep(key, value);
  }
  template <class T>
  Row& both(const std::string& heading, const std::string& key, const std::optional<T>& value,
            std::string_view format = "{}", double scale = 1) {
    return value ? both(heading, key, *value, format, scale)
                 : show(heading, "-").keep(key, nullptr);
  }

  using Shown = std::vector<std::pair<std::string, std::string>>;
  const Shown& shown() const { return shown_; }
  const nlohmann::json& kept() const { return kept_; }

 private:
  Shown shown_;
  nlohmann::json kept_ = nlohmann::json::object();
};

// The table of at least one row. All rows show the same headings.
Table table_of(const std::vector<Row>& rows);
nlohmann::json json_of(const std::vector<Row>& rows);
// The cells of one row as a table of properties and their values.
Table property_table(const Row& row);

// Prints JSON to stdout, broken into lines. Text that is not UTF-8 is escaped.
void print_json(nlohmann::json document);
// Writes a table into the log, for people to see beside the data on stdout.
void log_table(const Table& table);
// Writes to `output` and, unless that is stdout, says so: "profile: here.json".
void write_noted(const std::string& output, std::string_view text, std::string_view what);

// The format and destination of a command's output, with their options.
class Printer {
 public:
  // Declares --format with these choices. The first one is the default.
  void declare_format(OptionSet& set, const std::vector<OutputFormat>& formats);
  // Declares --json instead of --format. The default is text.
  void declare_json(OptionSet& set) { set.add("json", json_, "Print JSON instead of text."); }
  // Declares --output and --overwrite. `what` names the file in messages: "the table". Without this
  // call the command prints to stdout.
  void declare_output(OptionSet& set, const std::string& what);

  bool json() const { return json_ || format_ == OutputFormat::json; }
  bool text() const { return !json_ && format_ == OutputFormat::text; }
  OutputFormat format() const { return format_; }
  // Prints to stdout or to the file of --output. `name` is used in the note about that file.
  void print(const std::string& text, std::string_view name = "") const;
  void print(nlohmann::json document, std::string_view name = "") const;

 private:
  OutputFormat format_ = OutputFormat::text;
  bool json_ = false, overwrite_ = false;
  std::string output_ = "-";
};

}  // namespace hetsgd
