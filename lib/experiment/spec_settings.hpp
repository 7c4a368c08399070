// Reads the tables of options in a specification.
#pragma once

#include <string>
#include <vector>

#include "core/non_copyable.hpp"
#include "experiment/configured_run.hpp"
#include "experiment/search_space.hpp"
#include "experiment/spec_file.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Knows every option of `hetsgd train`, of all algorithms and models. To be made after plugins were
// loaded.
class SettingsReader : NonCopyable {
 public:
  explicit SettingsReader(const SpecFile& file);

  // The options of a table. Options of its `config` come first, so that the table's own ones
  // override them. Relative file names are searched beside the specification, and data files also
  // in HETSGD_DATA_DIR. Throws Error(usage) for an unknown option (naming the nearest one) or an
  // option that a sweep sets itself.
  std::vector<Setting> read(const JsonFields& table) const;
  // Throws Error(usage) unless all names of the space are options that may be combined.
  void check(const SearchSpace& space) const;

 private:
  const Option* find(const std::string& key) const;
  void check_key(const std::string& key, const std::string& place) const;
  nlohmann::json located(const std::string& key, const nlohmann::json& value) const;
  void read_config(const JsonFields& table, std::vector<Setting>& settings) const;

  std::string folder_;  // folder of the specification
  TrainOptions options_;
  OptionSet set_;
  std::vector<ForeignOption> foreign_;  // options of algorithms and models
};

// Throws Error(usage) for an object with a value for option `name` and also for an option that it
// excludes.
void check_rival(const nlohmann::json& options, const std::string& name, const std::string& place);
// Adds `setting`, and removes settings of the same name and those that it excludes.
void put(std::vector<Setting>& settings, const Setting& setting);
void put(std::vector<Setting>& settings, const std::vector<Setting>& more);
// The setting of this name; null if there is none.
const Setting* find_setting(const std::vector<Setting>& settings, const std::string& name);

}  // namespace hetsgd
