// Reads JSON trees that people wrote (profiles, networks, data sets, specifications of sweeps), with
// messages that name file, key, found and expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/builtin_file.hpp"
#include "core/error.hpp"

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
// Every finite number; messages name no limits.
inline constexpr FieldRange kNumbers{-std::numeric_limits<double>::max(),
                                     std::numeric_limits<double>::max(), ""};

using JsonPointer = nlohmann::json::json_pointer;

// "cases[1].settings.staleness"; "" is the document.
std::string path_text(JsonPointer part);

// The first part in which two documents differ, "cases[1].settings.staleness"; "": none.
std::string first_difference_in(const nlohmann::json& a, const nlohmann::json& b);

// A document that knows where its parts stand.
struct JsonDocument {
  std::string path;  // opens the messages: a file, or "built-in profile v100"
  nlohmann::json tree;
  // Lines of parts, by JSON pointer. A part without a line of its own has that of what holds it; a
  // document in JSON has none.
  std::map<std::string, int> lines = {};
  ExitCode code = ExitCode::data;  // of all errors

  // "a6.toml:12: settings.epochs"; `line_of`: the part whose line it is, where that is another one.
  std::string place(const JsonPointer& part) const { return place(part, part); }
  std::string place(const JsonPointer& part, JsonPointer line_of) const;
};

// One object of a document, whose keys are known. Getters throw an Error with the document's code:
//   v100.json: launch_overhead_s: found -1, expected a number from 0 to 1000000 s
// A getter with a default returns it where the key is missing. Shares the document.
class JsonFields {
 public:
  // Parses `text` (comments allowed). `place` opens the messages.
  JsonFields(std::string place, std::string_view text);
  // The whole of a document, which must be an object.
  explicit JsonFields(std::shared_ptr<const JsonDocument> document);
  // The same place with another content, which must live as long as what is returned.
  JsonFields with(const nlohmann::json& object) const;

  // Refuses keys that are none of `known`, with the nearest spelling.
  void allow(std::span<const std::string> known) const;
  void allow(std::initializer_list<std::string> known) const {
    allow(std::span(known.begin(), known.size()));
  }

  bool has(const std::string& key) const { return object_->contains(key); }
  bool is_null(const std::string& key) const;  // or absent
  bool is_text(const std::string& key) const;
  bool is_list(const std::string& key) const;
  const nlohmann::json& tree() const { return *object_; }
  std::string place(const std::string& key = "") const;  // what opens the messages

  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& default_value) const;
  double number(const std::string& key, const FieldRange& range = kNumbers) const;
  double number(const std::string& key, double default_value) const;
  int whole_number(const std::string& key, const FieldRange& range, int default_value) const;
  std::uint64_t count(const std::string& key, std::uint64_t least,
                      std::uint64_t default_value) const;
  bool boolean(const std::string& key, bool default_value) const;
  // A non-empty list of anything, of numbers in the range, of texts.
  const nlohmann::json& list(const std::string& key) const;
  std::vector<double> numbers(const std::string& key, const FieldRange& range,
                              std::vector<double> default_value) const;
  std::vector<std::string> texts(const std::string& key) const;
  // The place of the text in `choices`.
  std::size_t choice(const std::string& key, std::span<const std::string> choices,
                     std::size_t default_choice) const;

  // The object under a key, and the objects of a non-empty list ("nodes[2]" in their messages).
  JsonFields object(const std::string& key) const;
  std::vector<JsonFields> objects(const std::string& key) const;
  // The same where the key may be missing: an empty object, no objects.
  JsonFields object_or_empty(const std::string& key) const;
  std::vector<JsonFields> objects_or_none(const std::string& key) const;

  // Throws for a value that is of the right type and still wrong, or that is missing.
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

}  // namespace hetsgd
