// How a command shows what it has found: rows of cells, from which the table for people and the JSON
// for programs are made, and the options that say which of the two, and where to.
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

// A row of a table, which is an object of JSON, too. A cell is shown under a heading, kept under a
// key, or both.
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
  // One value for both. The table shows a number times `scale`, and "-" for none, which is null.
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

// At least one row; all of them show the same headings.
Table table_of(const std::vector<Row>& rows);
nlohmann::json json_of(const std::vector<Row>& rows);
// The cells of one row below each other, as properties and their values.
Table property_table(const Row& row);

// To stdout, in lines; text that is no UTF-8 is escaped.
void print_json(nlohmann::json document);
// Into the log: what a person should see beside the data.
void log_table(const Table& table);
// Writes to `output` and, unless that is stdout, says so: "profile: here.json".
void write_noted(const std::string& output, std::string_view text, std::string_view what);

enum class PrintFormat { text, markdown, latex, csv, json };

// How and where a command prints, by its options.
class Printer {
 public:
  // --format, one of these; the first one is the default.
  void declare_format(OptionSet& set, const std::vector<PrintFormat>& formats);
  // In its place: --json, else text.
  void declare_json(OptionSet& set) { set.add("json", json_, "print JSON"); }
  // --output and --overwrite. `what` names the file in messages: "the table". Otherwise the command
  // prints to stdout.
  void declare_output(OptionSet& set, const std::string& what);

  bool json() const { return json_ || format_ == PrintFormat::json; }
  bool text() const { return !json_ && format_ == PrintFormat::text; }
  TableFormat table_format() const;  // of any format but JSON (checked)
  // `name` stands in the note that names the file of --output.
  void print(const std::string& text, std::string_view name = "") const;
  void print(nlohmann::json document, std::string_view name = "") const;

 private:
  PrintFormat format_ = PrintFormat::text;
  bool json_ = false, overwrite_ = false;
  std::string output_ = "-";
};

}  // namespace hetsgd
