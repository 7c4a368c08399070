#include "experiment/sweep_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "data/source.hpp"
#include "experiment/spec_settings.hpp"
#include "training/plan.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

std::size_t index_of(SweepStage stage) { return stage == SweepStage::tuning ? 0 : 1; }

std::string flag_text(const json& value) {
  if (value.is_string()) return bytes_of_json(value.get<std::string>());
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

void add_flag(const Option& option, const json& value, std::vector<std::string>& arguments) {
  if (option.type == OptionType::boolean) {
    const bool on = value.is_string() ? value == "true" : value.get<bool>();
    arguments.push_back(on ? option.flag() : "--no-" + option.flag().substr(2));
  } else if (!value.is_array()) {
    arguments.push_back(option.flag() + "=" + flag_text(value));
  } else if (option.type == OptionType::text_list) {
    for (const json& each : value) arguments.push_back(option.flag() + "=" + flag_text(each));
  } else {
    std::string list;
    for (const json& each : value) list += (list.empty() ? "" : ",") + flag_text(each);
    arguments.push_back(option.flag() + "=" + list);
  }
}

// Refuses an option that is both tuned and swept, because it has one value after the tuning.
void check_apart(const SearchSpace& tuned, const SearchSpace& swept) {
  for (const SearchAxis& a : tuned.axes) {
    for (const SearchAxis& b : swept.axes) {
      for (const std::string& name : a.names) {
        if (std::ranges::count(b.names, name) == 0) continue;
        throw usage_error("{}: {} is tuned, but {} lists its values", a.place, name, b.place);
      }
    }
  }
}

}  // namespace

std::string to_string(SweepStage stage) { return stage == SweepStage::tuning ? "tuning" : "final"; }

json values_of(const std::vector<Setting>& settings) {
  json result = json::object();
  for (const Setting& setting : settings) result[setting.name] = setting.value;
  return result;
}

std::vector<json> values_tried(const std::vector<Candidate>& candidates, const std::string& name) {
  std::vector<json> values;
  for (const Candidate& each : candidates) {
    const Setting* const setting = find_setting(each.point, name);
    const bool is_new =
        setting != nullptr && std::ranges::find(values, setting->value) == values.end();
    if (is_new) values.push_back(setting->value);
  }
  return values;
}

std::string PlannedRun::name() const { return fmt::format("{:016x}", id); }

std::string algorithm_of(const std::vector<Setting>& settings) {
  const Setting* const algorithm = find_setting(settings, "algorithm");
  return algorithm == nullptr ? TrainOptions().algorithm : algorithm->value.get<std::string>();
}

std::vector<std::string> train_arguments(const std::vector<Setting>& settings) {
  std::vector<std::string> arguments = {"train"};
  const ConfiguredRun run(algorithm_of(settings), settings);
  for (const Setting& setting : settings) {
    const Option* const option = run.spec().set.find(setting.name);
    if (option != nullptr) add_flag(*option, fitting(setting.value, *option), arguments);
  }
  return arguments;
}

SweepPlan::SweepPlan(const SweepSpec& spec, bool any_number) : spec_(spec) {
  choices_.resize(spec.cells.size());
  for (auto& by_cell : candidates_) by_cell.resize(spec.cells.size());
  if (spec.cells.empty()) throw usage_error("{}: there is nothing to run", spec.path);
  if (most_runs() > kMostRuns && !any_number) {
    throw with_hint(
        usage_error("{}: found {:.4g} runs, expected at most a million", spec.path, most_runs()),
        "--yes runs them nevertheless");
  }
  for (std::size_t cell = 0; cell < spec.cells.size(); ++cell) {
    // The final candidates have the options before the tuning. Resolving them now shows their
    // mistakes early.
    candidates_[1][cell] = resolve_all(SweepStage::final, cell);
    if (!is_tuned(cell)) continue;
    check_apart(spec.setup_of(cell).tuning->space, spec.space);
    candidates_[0][cell] = resolve_all(SweepStage::tuning, cell);
  }
  trials_ = runs_of(SweepStage::tuning);
}

bool SweepPlan::is_tuned(std::size_t cell) const {
  return spec_.setup_of(cell).tuning && spec_.case_of(cell).tuning;
}

double SweepPlan::most_runs() const {
  double runs = 0;
  for (std::size_t cell = 0; cell < spec_.cells.size(); ++cell) {
    runs += spec_.space.size() * static_cast<double>(spec_.seeds.size());
    if (!is_tuned(cell)) continue;
    const TuningSpec& tuning = *spec_.setup_of(cell).tuning;
    double points = tuning.space.size();
    for (const SearchAxis& axis : tuning.space.axes) points += static_cast<double>(axis.widen);
    runs += points * static_cast<double>(tuning.seeds.size());
  }
  return runs;
}

const std::vector<Candidate>& SweepPlan::candidates(SweepStage stage, std::size_t cell) const {
  return candidates_[index_of(stage)][cell];
}

const Candidate& SweepPlan::candidate(const PlannedRun& run) const {
  return candidates(run.stage, run.cell)[run.candidate];
}

// The settings that the runs of a cell and stage share. A trial measures held-out rows, uses its
// whole budget, and has none of the parameters of final runs.
std::vector<Setting> SweepPlan::base_settings(SweepStage stage, std::size_t cell) const {
  const SetupSpec& setup = spec_.setup_of(cell);
  std::vector<Setting> settings = spec_.settings;
  put(settings, setup.settings);
  put(settings, spec_.case_of(cell).settings);
  if (stage == SweepStage::tuning) {
    std::erase_if(settings, [](const Setting& each) {
      return each.name == "stop_at_target" || each.name == "target";
    });
    put(settings, setup.tuning->settings);
    return settings;
  }
  if (setup.goal && setup.goal->target) {
    const std::string target = setup.goal->target->text();
    const Setting* const given = find_setting(settings, "target");
    json all = given == nullptr          ? json::array()
               : given->value.is_array() ? given->value
                                         : json::array({given->value});
    if (std::find(all.begin(), all.end(), json(target)) == all.end()) all.push_back(target);
    put(settings, {"target", all, OptionSource::flag, spec_.path + ": metric.target"});
  }
  if (choices_[cell]) put(settings, *choices_[cell]);
  return settings;
}

Candidate SweepPlan::resolve(const std::vector<Setting>& base, std::vector<Setting> point) {
  std::vector<Setting> settings = base;
  put(settings, point);
  const RunIdentity identity = identify(settings);
  if (identity.needs_launch && spec_.launch.empty()) {
    const bool is_tune = spec_.path.empty();  // which has options in place of a specification
    throw with_hint(usage_error("{}: runs whose workers are processes need a launch",
                                is_tune ? "--launch" : spec_.path),
                    is_tune ? "for example --launch 'mpirun -n {ranks}'"
                            : "for example launch = \"mpirun -n {ranks}\"");
  }
  const ConfiguredRun run(algorithm_of(settings), settings);
  if (run.knows_workers()) {
    const std::string alone = lone_worker(run.spec().options, run.spec().info);
    if (!alone.empty() && warned_.insert(alone).second) warn("{}", alone);
  }
  std::erase_if(point,
                [&](const Setting& each) { return run.spec().set.find(each.name) == nullptr; });
  return {std::move(point), identity.hash, identity.is_virtual};
}

std::vector<Candidate> SweepPlan::resolve_all(SweepStage stage, std::size_t cell) {
  const SearchSpace& space =
      stage == SweepStage::tuning ? spec_.setup_of(cell).tuning->space : spec_.space;
  const std::vector<Setting> base = base_settings(stage, cell);
  std::vector<Candidate> all;
  std::set<std::uint64_t> seen;
  const auto count = static_cast<std::uint64_t>(space.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    try {
      Candidate candidate = resolve(base, space.point(i));
      if (seen.insert(candidate.identity).second) all.push_back(std::move(candidate));
    } catch (const Error& error) {
      const std::string title = spec_.title(cell), message = error.what();
      throw Error(error.code(),
                  fmt::format("{}{}{}", message.starts_with(spec_.path) ? "" : spec_.path + ": ",
                              message, title.empty() ? "" : fmt::format(" ({})", title)),
                  error.hint());
    }
  }
  return all;
}

std::vector<PlannedRun> SweepPlan::runs_of(SweepStage stage) const {
  struct Placed {
    PlannedRun run;
    std::size_t repeat;
  };
  std::vector<Placed> placed;
  for (std::size_t cell = 0; cell < spec_.cells.size(); ++cell) {
    const std::vector<Candidate>& all = candidates(stage, cell);
    for (std::size_t c = 0; c < all.size(); ++c) {
      // Each setup may have its own seeds for the tuning.
      const std::vector<std::uint64_t>& seeds =
          stage == SweepStage::tuning ? spec_.setup_of(cell).tuning->seeds : spec_.seeds;
      for (std::size_t s = 0; s < seeds.size(); ++s) {
        const PlannedRun run{run_id(all[c].identity, seeds[s]), seeds[s],
                             static_cast<std::uint32_t>(cell), static_cast<std::uint32_t>(c),
                             stage};
        placed.push_back({run, s});
      }
    }
  }
  if (spec_.interleave) std::ranges::stable_sort(placed, {}, &Placed::repeat);
  std::vector<PlannedRun> runs;
  for (const Placed& each : placed) runs.push_back(each.run);
  return runs;
}

std::vector<Setting> SweepPlan::tuned_settings(std::size_t cell, const Choices& choices) const {
  const std::optional<RateFrom>& from = spec_.case_of(cell).rate_from;
  if (!from) return choices[cell].value_or(std::vector<Setting>{});
  const std::string setup = from->setup.empty() ? spec_.setup_of(cell).name : from->setup;
  for (std::size_t other = 0; other < spec_.cells.size(); ++other) {
    if (spec_.setup_of(other).name != setup) continue;
    if (spec_.case_of(other).name != from->case_name || !choices[other]) continue;
    const Setting* const rate = find_setting(*choices[other], "learning_rate");
    if (rate != nullptr && rate->value.is_number()) {
      const double value = rate->value.get<double>() * from->factor;
      return {{"learning_rate", value, OptionSource::flag, from->place}};
    }
  }
  throw usage_error("{}: no learning rate is tuned for setup {} and case {}", from->place,
                    setup.empty() ? "(the only one)" : setup, from->case_name);
}

bool SweepPlan::widen(std::size_t cell, std::size_t best) {
  std::vector<Candidate>& all = candidates_[0][cell];
  const std::vector<Setting> base = base_settings(SweepStage::tuning, cell),
                             point = all[best].point;
  bool is_wider = false;
  for (const SearchAxis& axis : spec_.setup_of(cell).tuning->space.axes) {
    if (axis.widen == 0) continue;
    const Setting* const chosen = find_setting(point, axis.names.front());
    if (chosen == nullptr) continue;  // the algorithm does not have the option
    const std::vector<json> tried = values_tried(all, chosen->name);
    const ListEnd end = end_of_list(tried, chosen->value);
    if (!end.beyond || tried.size() >= axis.rows.size() + axis.widen) continue;
    std::vector<Setting> beyond = point;
    put(beyond, {chosen->name, *end.beyond, chosen->source, chosen->place});
    all.push_back(resolve(base, beyond));
    is_wider = true;
  }
  if (is_wider) trials_ = runs_of(SweepStage::tuning);
  return is_wider;
}

const std::vector<PlannedRun>& SweepPlan::plan_final_runs(const Choices& choices) {
  for (std::size_t cell = 0; cell < spec_.cells.size(); ++cell) {
    const bool has_choice = is_tuned(cell) || spec_.case_of(cell).rate_from;
    if (!has_choice) continue;
    choices_[cell] = tuned_settings(cell, choices);
    candidates_[1][cell] = resolve_all(SweepStage::final, cell);
  }
  final_runs_ = runs_of(SweepStage::final);
  return final_runs_;
}

std::vector<Setting> SweepPlan::settings(const PlannedRun& run) const {
  std::vector<Setting> settings = base_settings(run.stage, run.cell);
  put(settings, candidate(run).point);
  put(settings, {"seed", run.seed, OptionSource::flag, spec_.path + ": seeds"});
  return settings;
}

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
