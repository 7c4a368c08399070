// The file of a sweep's specification, TOML or JSON, as a tree of which every part knows its place.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// What a specification says to its readers: kept, and never looked at.
inline constexpr std::array<std::string_view, 5> kFreeKeys = {"about", "paper", "figure",
                                                              "expectation", "claims"};
bool is_free_key(std::string_view key);

struct SpecFile {
  std::string path;
  nlohmann::json written;            // as it stands in the file
  nlohmann::json tree;               // with ${VARIABLE} replaced
  std::map<std::string, int> lines;  // of each part, by JSON pointer; empty for a file in JSON

  // "a6.toml:12: settings.epochs" for the part at a JSON pointer; without its line in JSON.
  std::string place(const std::string& pointer) const;
};

// Reads *.toml as TOML and every other name as JSON (with comments). ${NAME} in texts is replaced
// by the environment's variable. Errors: data (no such file, neither TOML nor JSON), usage (a
// variable that is not set), with the line.
SpecFile read_spec_file(const std::string& path);

// One table of the file. The getters throw Error(usage): place, found, expected.
class SpecTable {
 public:
  SpecTable(const SpecFile& file, std::string pointer, const nlohmann::json& tree)
      : file_(&file), pointer_(std::move(pointer)), tree_(&tree) {}

  // Refuses keys that are none of `known`, with the nearest spelling.
  void allow(std::initializer_list<std::string_view> known) const;

  bool has(const std::string& key) const { return tree_->contains(key); }
  const nlohmann::json& tree() const { return *tree_; }
  std::string place(const std::string& key = "") const;
  const std::string& pointer() const { return pointer_; }

  std::string text(const std::string& key, const std::string& otherwise) const;
  std::string text(const std::string& key) const;  // it must be there
  double number(const std::string& key, double otherwise) const;
  double number(const std::string& key) const;
  std::uint64_t count(const std::string& key, std::uint64_t otherwise, double least) const;
  bool boolean(const std::string& key, bool otherwise) const;
  const nlohmann::json& list(const std::string& key) const;  // it must not be empty
  // An empty table where there is none.
  SpecTable table(const std::string& key) const;
  std::vector<SpecTable> tables(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, std::string_view expected) const;

 private:
  const SpecFile* file_;
  std::string pointer_;
  const nlohmann::json* tree_;
};

}  // namespace hetsgd
