// The tables of options in a specification.
#pragma once

#include <string>
#include <vector>

#include "core/non_copyable.hpp"
#include "experiment/configured_run.hpp"
#include "experiment/search_space.hpp"
#include "experiment/spec_file.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Knows every option of `hetsgd train`, of all algorithms and models. Made after plugins were
// loaded.
class SettingsReader : NonCopyable {
 public:
  explicit SettingsReader(const SpecFile& file);

  // The options of a table. Those of its `config` come first, so that they are the weaker ones.
  // Relative names of files are looked for beside the specification first, of data then in
  // HETSGD_DATA_DIR. Errors: usage, an unknown option with the nearest one; an option that a sweep
  // sets by itself.
  std::vector<Setting> read(const JsonFields& table) const;
  // Errors: usage, unless all names of the space are options that go together.
  void check(const SearchSpace& space) const;

 private:
  const Option* find(const std::string& key) const;
  void check_key(const std::string& key, const std::string& place) const;
  nlohmann::json located(const std::string& key, const nlohmann::json& value) const;
  void read_config(const JsonFields& table, std::vector<Setting>& settings) const;

  std::string folder_;  // of the specification
  TrainOptions options_;
  OptionSet set_;
  std::vector<ForeignOption> foreign_;  // of algorithms and models
};

// Errors: usage, if the object has the option `name` and another one that it excludes, both with a
// value.
void check_rival(const nlohmann::json& options, const std::string& name, const std::string& place);
// `setting` in place of what stands there of its name, and of what it excludes.
void put(std::vector<Setting>& settings, const Setting& setting);
void put(std::vector<Setting>& settings, const std::vector<Setting>& more);
// Null: there is none.
const Setting* find_setting(const std::vector<Setting>& settings, const std::string& name);

}  // namespace hetsgd
