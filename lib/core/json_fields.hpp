// Reads JSON trees that people wrote (profiles, networks, data sets, specifications of sweeps).
// Messages name file, key, found and expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/builtin_file.hpp"
#include "core/error.hpp"

namespace hetsgd {

// --- documents ---------------------------------------------------------------------------------
// The only reader of JSON that others wrote: configurations, profiles, networks, results, tunings.

// Limits of a document. A result with an event for every step may be long. No file of ours is deep,
// and code that walks through a document recurses once per level.
inline constexpr std::uint64_t kMostJsonBytes = std::uint64_t{1} << 30;
inline constexpr int kMostJsonLevels = 100;

enum class JsonComments { refused, allowed };  // allowed: // and /* */

// Parses the document in `text`. `place`, a path, opens the messages. Throws Error(data) with
// place:line:column for text that is no JSON, for a number that no double holds, for a key that an
// object has twice, and for objects and lists nested deeper than kMostJsonLevels.
nlohmann::json parse_json(std::string_view text, const std::string& place,
                          JsonComments comments = JsonComments::refused);

// Parses a file of at most kMostJsonBytes. Further errors: Error(data) if it is missing, unreadable
// or too large.
nlohmann::json read_json(const std::string& path, JsonComments comments = JsonComments::refused);

// --- fields ------------------------------------------------------------------------------------
// Range of a number. The ranges below are wide enough for every existing machine and for costs of
// zero, and so narrow that no product of such numbers overflows a double.
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
inline constexpr FieldRange kShares{0, 1, ""};
// Any finite number. Messages name no limits.
inline constexpr FieldRange kNumbers{-std::numeric_limits<double>::max(),
                                     std::numeric_limits<double>::max(), ""};

using JsonPointer = nlohmann::json::json_pointer;

// The text of a pointer, "cases[1].settings.staleness"; "" is the document.
std::string path_text(JsonPointer part);

// The first difference of two documents, "cases[1].settings.staleness"; "" if they are equal.
std::string first_difference_in(const nlohmann::json& a, const nlohmann::json& b);

// A document that knows the lines of its parts.
struct JsonDocument {
  std::string path;  // opens the messages: a file, or "built-in profile v100"
  nlohmann::json tree;
  // Line numbers of parts, by JSON pointer. A part without a line of its own has the line of the
  // part that contains it. A document in JSON has none.
  std::map<std::string, int> lines = {};
  ExitCode code = ExitCode::data;  // of all errors

  // The opening of a message, "a6.toml:12: settings.epochs". `line_of` is the part whose line is
  // named, if that is another one.
  std::string place(const JsonPointer& part) const { return place(part, part); }
  std::string place(const JsonPointer& part, JsonPointer line_of) const;
};

// One object of a document, whose keys are known. Getters throw an Error with the document's code:
//   v100.json: launch_overhead_s: found -1, expected a number from 0 to 1000000 s
// A getter with a default returns it where the key is missing, and one whose name ends in _or_none
// returns nothing where the key is missing or null. Shares the document.
class JsonFields {
 public:
  // Parses `text` (comments allowed). `place` opens the messages.
  JsonFields(std::string place, std::string_view text);
  // Reads a whole document, which must be an object.
  explicit JsonFields(std::shared_ptr<const JsonDocument> document);
  // The same place with another content, which must outlive the result.
  JsonFields with(const nlohmann::json& object) const;

  // Refuses keys that are none of `known`, with the nearest spelling.
  void allow(std::span<const std::string> known) const;
  void allow(std::initializer_list<std::string> known) const {
    allow(std::span(known.begin(), known.size()));
  }

  bool has(const std::string& key) const { return object_->contains(key); }
  bool is_null(const std::string& key) const;  // null or absent
  bool is_text(const std::string& key) const;
  bool is_list(const std::string& key) const;
  const nlohmann::json& tree() const { return *object_; }
  std::string place(const std::string& key = "") const;  // opens the messages

  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& default_value) const;
  double number(const std::string& key, const FieldRange& range = kNumbers) const;
  double number(const std::string& key, double default_value) const;
  std::optional<double> number_or_none(const std::string& key, const FieldRange& range) const;
  int whole_number(const std::string& key, const FieldRange& range, int default_value) const;
  std::uint64_t count(const std::string& key, std::uint64_t least,
                      std::uint64_t default_value) const;
  bool boolean(const std::string& key, bool default_value) const;
  // A non-empty list: of anything, of numbers in the range, or of texts.
  const nlohmann::json& list(const std::string& key) const;
  std::vector<double> numbers(const std::string& key, const FieldRange& range,
                              std::vector<double> default_value) const;
  std::vector<std::string> texts(const std::string& key) const;
  // The index in `choices` of the text.
  std::size_t choice(const std::string& key, std::span<const std::string> choices,
                     std::size_t default_choice) const;

  // The object under a key, or the objects of a non-empty list ("nodes[2]" in their messages).
  JsonFields object(const std::string& key) const;
  std::vector<JsonFields> objects(const std::string& key) const;
  // The same for a key that may be missing; the result is then an empty object, or no objects.
  JsonFields object_or_empty(const std::string& key) const;
  std::vector<JsonFields> objects_or_none(const std::string& key) const;

  // Throws for a value that is missing, or that has the right type and is still wrong.
  [[noreturn]] void refuse(const std::string& key, std::string_view expected,
                           std::string hint = "") const;

 private:
  JsonFields(std::shared_ptr<const JsonDocument> document, JsonPointer at,
             const nlohmann::json& object);
  template <class IsRight>
  const nlohmann::json& value(const std::string& key, std::string_view expected,
                              IsRight is_right) const;

  std::shared_ptr<const JsonDocument> document_;
  JsonPointer at_;
  const nlohmann::json* object_;
};

// The fields of the built-in file of this name, or of the JSON file at this path. Throws
// Error(usage) for a name that is neither: `--profile: found "v10", expected NAMES or a JSON file`,
// with the nearest name. `place` opens the message, `noun` is what the file holds.
JsonFields find_json_file(std::string_view place, std::string_view noun,
                          const std::string& name_or_path, const std::vector<BuiltinFile>& builtin);

std::vector<std::string> names_of(const std::vector<BuiltinFile>& files);

// Checks that a document that a program wrote has what its reader takes. Each field is a place and
// a kind, "curve[].time_s number", where [] stands for every element of the list before it. Kinds
// are object, list, text, number, count and boolean; one that ends in ? may also be null or
// missing. Throws Error(data), "run.json: curve[3].time_s: found nothing, expected a number".
void check_fields(const std::string& path, const nlohmann::json& document,
                  std::initializer_list<std::string_view> fields);

}  // namespace hetsgd
