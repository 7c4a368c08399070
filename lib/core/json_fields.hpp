// Reads small JSON files, of profiles, networks and data sets, with messages that name file, key, found
// and expected.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/builtin_file.hpp"

namespace hetsgd {

// What a number may be: wide enough for every machine that is and for costs that are nothing, and
// so narrow that no product of such numbers leaves the doubles.
struct FieldRange {
  double min, max;
  std::string_view unit;  // "s"; "" for a ratio
};
inline constexpr FieldRange kDurations{0, 1e6, "s"};  // latencies and overheads
inline constexpr FieldRange kOperationRates{1, 1e30, "operations/s"};
inline constexpr FieldRange kByteRates{1, 1e30, "bytes/s"};
inline constexpr FieldRange kSizes{0, 1e18, "bytes"};
inline constexpr FieldRange kRatios{1e-6, 1e6, ""};
inline constexpr FieldRange kCounts{1, 1e6, ""};

// One JSON object whose keys are known. Every getter throws Error(data):
//   v100.json: launch_overhead_s: found -1, expected a number from 0 to 1000000 s
class JsonFields {
 public:
  // Parses `text` (comments allowed). `place` opens the messages: a path, or "built-in profile
  // v100".
  JsonFields(std::string place, std::string_view text);

  // Refuses keys that are none of `known`, with the nearest spelling.
  void allow(std::span<const std::string> known) const;

  bool is_null(const std::string& key) const;  // or absent
  bool is_text(const std::string& key) const;
  bool is_list(const std::string& key) const;
  const std::string& place() const { return place_; }  // what opens the messages
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& default_value) const;
  double number(const std::string& key, const FieldRange& range) const;
  int whole_number(const std::string& key, const FieldRange& range, int default_value) const;
  bool boolean(const std::string& key, bool default_value) const;
  // A non-empty list of numbers in the range.
  std::vector<double> numbers(const std::string& key, const FieldRange& range,
                              std::vector<double> default_value) const;
  // A non-empty list of texts.
  std::vector<std::string> texts(const std::string& key) const;
  // The place of the text in `choices`.
  std::size_t choice(const std::string& key, std::span<const std::string> choices,
                     std::size_t default_choice) const;

  // The object under a key; its keys open its messages, too.
  JsonFields object(const std::string& key) const;
  // Those of a non-empty list, "nodes[2]" in their messages.
  std::vector<JsonFields> objects(const std::string& key) const;
  // Throws for a value that is of the right type and still wrong.
  [[noreturn]] void refuse(const std::string& key, std::string_view expected) const;

 private:
  JsonFields() = default;
  const nlohmann::json& at(const std::string& key, std::string_view expected) const;
  [[noreturn]] void fail(const std::string& key, const nlohmann::json& found,
                         std::string_view expected) const;

  std::string place_;
  nlohmann::json object_;
};

// The fields of the built-in file of this name, or of the JSON file at this path. Throws
// Error(usage) for a name that is neither: `--profile: found "v10", expected NAMES or a JSON file`,
// with the nearest name. `place` opens the message, `noun` is what the file holds.
JsonFields find_json_file(std::string_view place, std::string_view noun,
                          const std::string& name_or_path, const std::vector<BuiltinFile>& builtin);

std::vector<std::string> names_of(const std::vector<BuiltinFile>& files);

}  // namespace hetsgd
