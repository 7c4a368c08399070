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

// What a sweep decides for its runs, and what to write instead.
const std::map<std::string, std::string>& managed_options() {
  static const std::map<std::string, std::string> kInstead = {
      {"seed", "seeds = \"1:10\" lists the seeds"},
      {"output", "hetsgd sweep -o FOLDER says where results go"},
      {"overwrite", "what is done is skipped"},
      {"resume", "what is done is skipped"},
      {"require_target", "a missed target is a result like any other"},
      {"quiet", "it is an option of hetsgd sweep"},
      {"color", "it is an option of hetsgd sweep"},
      {"log_dir", "what a failed run says stands beside its result"},
      {"progress_every", "runs of a sweep show no progress of their own"},
      {"trace", "hetsgd rerun repeats a run and writes its trace"},
      {"dump_parameters", "hetsgd rerun repeats a run and writes its model"},
      {"dump_initial_parameters", "hetsgd rerun repeats a run and writes its model"}};
  return kInstead;
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
  const auto managed = managed_options().find(key);
  if (managed != managed_options().end()) {
    throw with_hint(usage_error("{}: not an option of a sweep's runs", place), managed->second);
  }
  if (find(key) != nullptr) return;
  std::vector<std::string> known = {"config"};
  for (const Option& option : set_.options()) known.push_back(option.name);
  for (const ForeignOption& foreign : foreign_) known.push_back(foreign.option.name);
  const std::string nearest_one = did_you_mean(key, known);
  throw with_hint(usage_error("{}: unknown option", place),
                  nearest_one.empty() ? "hetsgd train --help lists the options" : nearest_one);
}

// Names of built-in profiles and of fetched data sets stay what they are.
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

void SettingsReader::read_config(const SpecTable& table, std::vector<Setting>& settings) const {
  if (!table.has("config")) return;
  const std::string path = located("config", table.text("config"));
  const json config = load_config(path);
  for (const auto& [key, value] : config.items()) {
    const std::string place = fmt::format("{}: {}", path, key);
    if (key == "seed") continue;  // of a result's configuration
    check_key(key, place);
    put(settings, {key, value, OptionSource::flag, place});
  }
}

std::vector<Setting> SettingsReader::read(const SpecTable& table) const {
  std::vector<Setting> settings;
  read_config(table, settings);
  for (const auto& [key, value] : table.tree().items()) {
    if (key == "config") continue;
    check_key(key, table.place(key));
    put(settings, {key, located(key, value), OptionSource::flag, table.place(key)});
  }
  return settings;
}

void SettingsReader::check(const SearchSpace& space) const {
  for (const SearchAxis& axis : space.axes) {
    for (const std::string& name : axis.names) check_key(name, axis.place);
  }
}

void put(std::vector<Setting>& settings, const Setting& setting) {
  static const std::map<std::string, std::string> kExclusive = {{"epochs", "max_samples"},
                                                                {"max_samples", "epochs"},
                                                                {"test", "validation"},
                                                                {"validation", "test"}};
  const auto excluded = kExclusive.find(setting.name);
  std::erase_if(settings, [&](const Setting& each) {
    return each.name == setting.name ||
           (excluded != kExclusive.end() && each.name == excluded->second);
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
