#include "experiment/spec_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The hint for an option that a sweep does not accept; "" if it does.
std::string instead_of(const Option& option) {
  static const std::map<std::string, std::string> kInstead = {
      {"seed", "seeds = \"1:10\" lists the seeds"},
      {"output", "hetsgd sweep -o FOLDER says where results go"},
      {"overwrite", "a sweep skips the runs that are done"},
      {"resume", "a sweep skips the runs that are done"},
      {"require_target", "a run that misses its target is a result like any other"},
      {"log_dir", "the log of a failed run stands beside its result"}};
  const auto found = kInstead.find(option.name);
  if (found != kInstead.end()) return found->second;
  const bool writes = option.files.role == FileRole::written;
  return writes
             ? fmt::format("hetsgd rerun RESULT {} FILE repeats a run and writes it", option.flag())
             : "";
}

// An option that excludes another one, unless it has its `absent` value, which means that it is not
// set.
struct Rival {
  std::string name;
  json absent;  // value of the option itself
};

// The rivals by the declarations of every run's options.
const std::map<std::string, Rival>& rivals() {
  static const std::map<std::string, Rival> kAll = [] {
    std::map<std::string, Rival> all;
    TrainOptions options;
    OptionSet set;
    options.declare(set);
    for (const Option& option : set.options()) {
      if (!option.excludes.empty()) all[option.name] = {option.excludes, option.to_json()};
    }
    return all;
  }();
  return kAll;
}

// The option that cannot be combined with `name` at this value; "" if there is none.
std::string rival_of(const std::string& name, const json& value) {
  const auto found = rivals().find(name);
  return found == rivals().end() || value == found->second.absent ? "" : found->second.name;
}

}  // namespace

SettingsReader::SettingsReader(const SpecFile& file)
    : folder_(std::filesystem::path(file.path).parent_path().string()) {
  options_.declare(set_);
  foreign_ = options_of_all_algorithms();
  for (ForeignOption& option : options_of_all_models()) foreign_.push_back(std::move(option));
}

const Option* SettingsReader::find(const std::string& key) const {
  if (const Option* const option = set_.find(key)) return option;
  const auto found = std::ranges::find(
      foreign_, key,
      [](const ForeignOption& each) -> const std::string& { return each.option.name; });
  return found == foreign_.end() ? nullptr : &found->option;
}

void SettingsReader::check_key(const std::string& key, const std::string& place) const {
  if (const Option* const option = find(key)) {
    if (!option->of_call && key != "seed") return;
    throw with_hint(usage_error("{}: not an option of a sweep's runs", place), instead_of(*option));
  }
  std::vector<std::string> known = {"config"};
  for (const Option& option : set_.options()) known.push_back(option.name);
  for (const ForeignOption& foreign : foreign_) known.push_back(foreign.option.name);
  const std::string nearest_one = did_you_mean(key, known);
  throw with_hint(usage_error("{}: unknown option", place),
                  nearest_one.empty() ? "hetsgd train --help lists the options" : nearest_one);
}

// Finds relative file names in their folders. Names of built-in profiles and of fetched data sets
// stay unchanged.
json SettingsReader::located(const std::string& key, const json& value) const {
  const bool is_config = key == "config";
  const Option* const option = is_config ? nullptr : find(key);
  const bool is_file =
      is_config || (option->files.role == FileRole::read && option->name != "straggler");
  if (is_file && value.is_array()) {
    json all = json::array();
    for (const json& each : value) all.push_back(located(key, each));
    return all;
  }
  if (!is_file || !value.is_string() || value.get<std::string>().empty()) return value;
  const std::filesystem::path name(value.get<std::string>());
  if (name.is_absolute()) return value;
  std::vector<std::filesystem::path> folders = {folder_};
  const char* const data = std::getenv("HETSGD_DATA_DIR");
  if (data != nullptr && (key == "train" || key == "test")) folders.emplace_back(data);
  for (const std::filesystem::path& folder : folders) {
    if (std::filesystem::is_regular_file(folder / name)) return (folder / name).string();
  }
  return value;
}

void SettingsReader::read_config(const JsonFields& table, std::vector<Setting>& settings) const {
  if (!table.has("config")) return;
  const std::string path = located("config", table.text("config"));
  const json config = load_config(path);
  for (const auto& [key, value] : config.items()) {
    const std::string place = fmt::format("{}: {}", path, key);
    if (key == "seed") continue;  // part of a result's configuration
    check_key(key, place);
    check_rival(config, key, place);
    put(settings, {key, value, OptionSource::flag, place});
  }
}

std::vector<Setting> SettingsReader::read(const JsonFields& table) const {
  std::vector<Setting> settings;
  read_config(table, settings);
  for (const auto& [key, value] : table.tree().items()) {
    if (key == "config") continue;
    check_key(key, table.place(key));
    check_rival(table.tree(), key, table.place(key));
    put(settings, {key, located(key, value), OptionSource::flag, table.place(key)});
  }
  return settings;
}

void SettingsReader::check(const SearchSpace& space) const {
  json all = json::object();
  for (const SearchAxis& axis : space.axes) {
    for (const std::string& name : axis.names) {
      // The place of a zip table does not name its lists.
      const std::string place =
          axis.place.ends_with(name) ? axis.place : fmt::format("{}.{}", axis.place, name);
      check_key(name, place);
      all[name] = place;
    }
  }
  for (const auto& [name, place] : all.items()) check_rival(all, name, place);
}

void check_rival(const json& options, const std::string& name, const std::string& place) {
  const std::string rival = rival_of(name, options.at(name));
  if (rival.empty() || !options.contains(rival)) return;
  if (rival_of(rival, options.at(rival)).empty()) return;
  throw usage_error("{}: found beside {}, expected one of the two", place, rival);
}

void put(std::vector<Setting>& settings, const Setting& setting) {
  const std::string rival = rival_of(setting.name, setting.value);
  std::erase_if(settings, [&](const Setting& each) {
    return each.name == setting.name || (!rival.empty() && each.name == rival);
  });
  settings.push_back(setting);
}

void put(std::vector<Setting>& settings, const std::vector<Setting>& more) {
  for (const Setting& setting : more) put(settings, setting);
}

const Setting* find_setting(const std::vector<Setting>& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == settings.end() ? nullptr : &*found;
}

}  // namespace hetsgd
