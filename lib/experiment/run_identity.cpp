#include "experiment/run_identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "data/source.hpp"
#include "experiment/spec_settings.hpp"
#include "experiment/sweep_plan.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

std::string model_of(const std::vector<Setting>& settings) {
  const Setting* const model = find_setting(settings, "model");
  return model == nullptr ? TrainOptions().model : model->value.get<std::string>();
}

// The default of every option with this algorithm and model.
const json& default_config(const std::string& algorithm, const std::string& model) {
  static std::map<std::pair<std::string, std::string>, json> known;
  json& config = known[{algorithm, model}];
  if (config.is_null()) {
    config = ConfiguredRun(algorithm, {{"model", model, OptionSource::flag, "--model"}})
                 .spec()
                 .set.to_json();
  }
  return config;
}

// The content hash of a file. It is cached, because many runs name the same file.
std::string content_of(const std::string& path) {
  static std::map<std::string, std::string> known;
  std::string& hash = known[path];
  if (hash.empty()) hash = fmt::format("xxh3:{:016x}", DataFile(path).hash());
  return hash;
}

json file_identity(const Option& option, const json& value) {
  if (value.is_array()) {
    json all = json::array();
    for (const json& each : value) all.push_back(file_identity(option, each));
    return all;
  }
  if (!value.is_string()) return value;
  const std::string path = bytes_of_json(value.get<std::string>());
  std::error_code failed;
  if (path.empty() || !std::filesystem::is_regular_file(path, failed)) return value;
  if (option.name == "train" || option.name == "test") {
    return {{"name", json_text(file_name(path))}, {"bytes", std::filesystem::file_size(path)}};
  }
  return content_of(path);
}

// Options whose default has changed since identities exist. They are always part of the identity,
// so that an older run is not taken for one with the new default. A change of a default that
// changes results must add its option here.
bool has_changed_default(const std::string& name) {
  // The former defaults are any and l2_over_n.
  static constexpr std::array<std::string_view, 2> kNames = {"trigger", "pert_norm"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// The former default of an algorithm's option, if it has changed since identities exist. An option
// at its former default is left out of the identity, so the names of older runs stay valid.
std::optional<json> former_default(const std::string& algorithm, const std::string& option) {
  static const std::map<std::pair<std::string, std::string>, json> kFormer = {
      {{"ssgd", "per_worker_batch"}, "split"}};
  const auto found = kFormer.find({algorithm, option});
  return found == kFormer.end() ? std::nullopt : std::optional<json>(found->second);
}

// Whether the algorithm has its own default for an option of every run. Such defaults were
// introduced after identities.
bool has_own_default(const AlgorithmInfo& info, const std::string& name) {
  return std::ranges::any_of(info.defaults, [&](const auto& each) { return each.first == name; });
}

// The names of algorithm and model must be texts, since they are needed before options are
// declared.
void check_names(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const bool is_name = setting.name == "algorithm" || setting.name == "model";
    if (is_name && !setting.value.is_string()) {
      throw usage_error("{}: found {}, expected a text", setting.place, setting.value.dump());
    }
  }
}

}  // namespace

RunIdentity identify(const std::vector<Setting>& settings) {
  check_names(settings);
  const std::string algorithm = algorithm_of(settings);
  ConfiguredRun run(algorithm, settings);
  const RunSpec spec = run.spec();
  const ClusterKind& kind = cluster_kind(spec.options.cluster);
  json config;
  if (kind.join) {  // because resolving the number of processes would join them
    spec.options.validate();
    config = spec.set.to_json();
  } else {
    config = Training(spec).record().config;
  }
  const json& defaults = default_config(algorithm, model_of(settings));
  json identity = {{"algorithm", algorithm}, {"workers", config["workers"]}};
  // `defaults` has the run's model, so a model other than the general default must be added here.
  if (config["model"] != TrainOptions().model) identity["model"] = config["model"];
  for (const Option& option : spec.set.options()) {
    if (!option.in_config || option.name == "seed") continue;
    const json& value = config[option.name];
    const bool is_named =
        has_changed_default(option.name) || has_own_default(spec.info, option.name);
    const json usual = former_default(algorithm, option.name).value_or(defaults[option.name]);
    if (value == usual && !is_named) continue;
    identity[option.name] =
        option.files.role == FileRole::read ? file_identity(option, value) : value;
  }
  return {content_hash(identity.dump()), kind.is_virtual, kind.join != nullptr};
}

std::uint64_t run_id(std::uint64_t identity, std::uint64_t seed) {
  return content_hash(fmt::format("{:016x} {}", identity, seed));
}

}  // namespace hetsgd
