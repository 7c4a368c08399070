// Reads the small JSON files of profiles and networks, with messages that name file, key, found and
// expected. Internal to cluster/profile.cpp and cluster/network.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/builtin_file.hpp"

namespace hetsgd {

// One JSON object whose keys are known. Every getter throws Error(data):
//   v100.json: launch_overhead_s: found -1, expected a number of at least 0
class JsonFields {
 public:
  // Parses `text` (comments allowed). `place` opens the messages: a path, or "built-in profile
  // v100".
  JsonFields(std::string place, std::string_view text);

  // Refuses keys that are none of `known`, with the nearest spelling.
  void allow(std::span<const std::string> known) const;

  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& default_value) const;
  double number(const std::string& key, double min) const;  // finite, >= min
  double positive(const std::string& key) const;            // finite, > 0
  bool boolean(const std::string& key, bool default_value) const;
  // A non-empty list of finite numbers > 0.
  std::vector<double> positives(const std::string& key, std::vector<double> default_value) const;
  // The place of the text in `choices`.
  std::size_t choice(const std::string& key, std::span<const std::string> choices,
                     std::size_t default_choice) const;

 private:
  const nlohmann::json& at(const std::string& key, std::string_view expected) const;
  [[noreturn]] void fail(const std::string& key, const nlohmann::json& found,
                         std::string_view expected) const;

  std::string place_;
  nlohmann::json object_;
};

// The fields of the built-in file of this name, or of the JSON file at this path. Throws
// Error(usage) for a name that is neither: `--OPTION: found "v10", expected NAMES or a JSON file`,
// with the nearest name.
JsonFields find_json_file(std::string_view option, const std::string& name_or_path,
                          const std::vector<BuiltinFile>& builtin);

std::vector<std::string> names_of(const std::vector<BuiltinFile>& files);

}  // namespace hetsgd
