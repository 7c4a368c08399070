#include "experiment/sweep_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "experiment/spec_settings.hpp"
#include "training/plugins.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostSeeds = 1'000'000;

std::vector<std::uint64_t> read_seeds(const JsonFields& table,
                                      const std::vector<std::uint64_t>& otherwise) {
  constexpr const char* kExpected = "FROM:TO such as \"1:10\", or a list of different seeds";
  if (!table.has("seeds")) return otherwise;
  const json& value = table.tree().at("seeds");
  std::vector<std::uint64_t> seeds;
  if (value.is_string()) {
    const std::string text = value;
    const auto parts = split(text, ':');
    if (parts.size() != 2) table.refuse("seeds", kExpected);
    const std::uint64_t from = parse_count(table.place("seeds"), parts[0]);
    const std::uint64_t to = parse_count(table.place("seeds"), parts[1]);
    if (to < from || to - from >= kMostSeeds) table.refuse("seeds", kExpected);
    for (std::uint64_t seed = from; seed <= to; ++seed) seeds.push_back(seed);
    return seeds;
  }
  for (const json& seed : table.list("seeds")) {
    if (!seed.is_number_unsigned() || std::ranges::count(seeds, seed.get<std::uint64_t>()) > 0) {
      table.refuse("seeds", kExpected);
    }
    seeds.push_back(seed);
  }
  return seeds;
}

std::optional<Seconds> read_max_wall(const JsonFields& table) {
  if (!table.has("max_wall")) return std::nullopt;
  const json& value = table.tree().at("max_wall");
  if (value.is_number()) return Seconds(table.number("max_wall"));
  return parse_seconds(table.place("max_wall"), table.text("max_wall"));
}

// The table of the whole sweep, overridden by the setup's own one of the same name.
json merged(const JsonFields& base, const JsonFields& own) {
  json result = base.tree();
  result.merge_patch(own.tree());
  // A list replaces a range and a range replaces a list, because merging the two makes no sense.
  if (!own.has("parameters") || !own.tree()["parameters"].is_object()) return result;
  for (const auto& [name, value] : own.tree()["parameters"].items()) {
    const json& before = base.tree().value("parameters", json::object()).value(name, json());
    const bool lists = value.is_object() && (value.contains("values") || value.contains("min") ||
                                             (before.is_object() && !before.contains("from")));
    if (lists) result["parameters"][name] = value;
  }
  return result;
}

std::optional<Goal> read_goal(const JsonFields& table) {
  table.allow({"name", "goal", "target"});
  if (table.tree().empty()) return std::nullopt;
  const std::string name = table.text("name"), goal = table.text("goal", "maximize");
  const bool higher = parse_goal(name, table.place("name")).larger_is_better();
  if (goal == "time_to_target") {
    const double target = table.number("target");
    return parse_goal(fmt::format("{}{}{}", name, higher ? ">=" : "<=", target),
                      table.place("target"));
  }
  if (goal != "maximize" && goal != "minimize") {
    table.refuse("goal", "maximize, minimize or time_to_target");
  }
  if (table.has("goal") && higher != (goal == "maximize")) {
    table.refuse("goal", fmt::format("{}, as {} is better", higher ? "maximize" : "minimize",
                                     higher ? "more" : "less"));
  }
  if (table.has("target")) table.refuse("target", "none, unless goal = \"time_to_target\"");
  return parse_goal(name, table.place("name"));
}

// Turns a list of algorithms into a list of cases, each with its own trials and options, and
// removes it from the space. Without such a list there is one case.
std::vector<CaseSpec> cases_of_algorithms(SearchSpace& space) {
  const std::vector<std::string> names = {"algorithm"};
  const auto axis = std::ranges::find(space.axes, names, &SearchAxis::names);
  std::vector<CaseSpec> cases;
  if (axis == space.axes.end()) return {CaseSpec{}};
  for (const std::vector<json>& row : axis->rows) {
    if (!row.front().is_string()) return {CaseSpec{}};
    CaseSpec& method = cases.emplace_back();
    method.name = row.front();
    method.settings = {{"algorithm", row.front(), OptionSource::flag, axis->place}};
  }
  space.axes.erase(axis);
  return cases;
}

template <class Named>
void check_unique(const std::vector<Named>& all, const JsonFields& top, const char* key) {
  std::set<std::string> seen;
  for (const Named& each : all) {
    if (!seen.insert(each.name).second) {
      throw usage_error("{}: found the name {} twice", top.place(key), quote(each.name));
    }
  }
}

class SpecReader {
 public:
  explicit SpecReader(const std::shared_ptr<const SpecFile>& file)
      : file_(*file), top_(file), settings_(*file) {}

  SweepSpec read() {
    top_.allow({"name", "about", "paper", "figure", "expectation", "claims", "seeds", "max_wall",
                "interleave", "launch", "metric", "settings", "setups", "cases", "only",
                "parameters", "zip", "search", "tuning"});
    SweepSpec spec;
    spec.written = file_.written;
    spec.path = file_.path;
    spec.name = top_.text("name");
    const bool good =
        spec.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    if (!good || spec.name.empty() || spec.name.front() == '-') {
      top_.refuse("name", "small letters, digits and -, such as \"a6\"");
    }
    spec.seeds = read_seeds(top_, {1});
    spec.max_wall = read_max_wall(top_);
    spec.interleave = top_.boolean("interleave", false);
    spec.launch = top_.text("launch", "");
    spec.settings = settings_.read(top_.object_or_empty("settings"));
    spec.space = read_search_space(top_);
    settings_.check(spec.space);
    for (const SearchAxis& axis : spec.space.axes) {
      if (axis.widen > 0) refuse(axis.place + ".widen", "a list that no tuning decides", "none");
    }
    read_setups(spec);
    read_cases(spec);
    read_only(spec);
    for (const CaseSpec& method : spec.cases) {
      if (!method.rate_from) continue;
      const RateFrom& from = *method.rate_from;
      find_named(spec.cases, from.case_name, from.place);
      if (!from.setup.empty()) find_named(spec.setups, from.setup, from.place);
    }
    for (const SetupSpec& setup : spec.setups) {
      if (setup.tuning && !setup.goal) {
        refuse(file_.path, "[tuning] without [metric]", "a [metric] that decides");
      }
      if (setup.tuning && setup.tuning->target && !setup.goal->target) {
        refuse(file_.path, "tuning.target", "none, unless metric.goal = \"time_to_target\"");
      }
      if (setup.tuning && setup.goal->target) {
        check_value(*setup.tuning_goal().target, fmt::format("{}: tuning.target", file_.path));
      }
    }
    return spec;
  }

 private:
  std::optional<TuningSpec> read_tuning_stage(const JsonFields& table) const {
    if (table.tree().empty()) return std::nullopt;
    table.allow({"epochs", "max_samples", "max_time", "validation", "seeds", "settings",
                 "parameters", "zip", "search", "target"});
    TuningSpec tuning;
    if (table.has("target")) tuning.target = table.number("target");
    json budget = json::object();
    for (const char* const key : {"epochs", "max_samples", "max_time", "validation"}) {
      if (table.has(key)) budget[key] = table.tree().at(key);
    }
    tuning.settings = settings_.read(table.object_or_empty("settings"));
    for (const auto& [key, value] : budget.items()) {
      check_rival(budget, key, table.place(key));
      put(tuning.settings, {key, value, OptionSource::flag, table.place(key)});
    }
    if (table.number("validation", 0.1) <= 0) table.refuse("validation", "a share above 0");
    if (find_setting(tuning.settings, "validation") == nullptr) {
      put(tuning.settings, {"validation", 0.1, OptionSource::flag, table.place()});
    }
    tuning.seeds = read_seeds(table, {1});
    tuning.space = read_search_space(table);
    settings_.check(tuning.space);
    if (tuning.space.axes.empty()) table.refuse("parameters", "the options to tune");
    return tuning;
  }

  SetupSpec read_setup(const JsonFields& table) const {
    table.allow({"name", "about", "settings", "metric", "tuning"});
    SetupSpec setup;
    setup.name = table.text("name");
    setup.settings = settings_.read(table.object_or_empty("settings"));
    const auto read_merged = [&](const char* key, const auto& read) {
      const JsonFields base = top_.object_or_empty(key), own = table.object_or_empty(key);
      if (own.tree().empty()) return read(base);
      const json both = merged(base, own);
      return read(own.with(both));
    };
    setup.goal = read_merged("metric", read_goal);
    setup.tuning =
        read_merged("tuning", [&](const JsonFields& each) { return read_tuning_stage(each); });
    return setup;
  }

  CaseSpec read_case(const JsonFields& table) const {
    table.allow({"name", "about", "settings", "tuning", "rate_from"});
    CaseSpec result;
    result.name = table.text("name");
    result.settings = settings_.read(table.object_or_empty("settings"));
    result.tuning = table.boolean("tuning", true) && !table.has("rate_from");
    if (table.has("rate_from")) {
      const JsonFields from = table.object("rate_from");
      from.allow({"setup", "case", "factor"});
      result.rate_from = {from.text("setup", ""), from.text("case"), from.number("factor", 1),
                          table.place("rate_from")};
      if (result.rate_from->factor <= 0) from.refuse("factor", "a number above 0");
    }
    return result;
  }

  void read_setups(SweepSpec& spec) const {
    for (const JsonFields& table : top_.objects_or_none("setups")) {
      spec.setups.push_back(read_setup(table));
    }
    check_unique(spec.setups, top_, "setups");
    if (!spec.setups.empty()) return;
    SetupSpec only;
    only.goal = read_goal(top_.object_or_empty("metric"));
    only.tuning = read_tuning_stage(top_.object_or_empty("tuning"));
    spec.setups.push_back(std::move(only));
  }

  void read_cases(SweepSpec& spec) const {
    for (const JsonFields& table : top_.objects_or_none("cases")) {
      spec.cases.push_back(read_case(table));
    }
    check_unique(spec.cases, top_, "cases");
    if (spec.cases.empty()) spec.cases = cases_of_algorithms(spec.space);
  }

  void read_only(SweepSpec& spec) const {
    std::set<std::pair<std::size_t, std::size_t>> wanted;
    for (const JsonFields& table : top_.objects_or_none("only")) {
      table.allow({"setup", "cases"});
      const std::size_t setup = find_named(spec.setups, table.text("setup"), table.place("setup"));
      for (std::size_t i = 0; !table.has("cases") && i < spec.cases.size(); ++i) {
        wanted.emplace(setup, i);
      }
      if (!table.has("cases")) continue;
      for (const json& name : table.list("cases")) {
        if (!name.is_string()) table.refuse("cases", "names of cases");
        wanted.emplace(setup, find_named(spec.cases, name, table.place("cases")));
      }
    }
    for (std::size_t setup = 0; setup < spec.setups.size(); ++setup) {
      for (std::size_t method = 0; method < spec.cases.size(); ++method) {
        if (top_.has("only") && !wanted.contains({setup, method})) continue;
        spec.cells.push_back({setup, method});
      }
    }
  }

  template <class Named>
  std::size_t find_named(const std::vector<Named>& all, const std::string& name,
                         const std::string& place) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].name == name) return i;
      if (!all[i].name.empty()) names.push_back(all[i].name);
    }
    if (names.empty()) {
      throw usage_error("{}: found {}, but the specification gives no names to choose from", place,
                        quote(name));
    }
    refuse(place, quote(name), alternatives(names), did_you_mean(name, names));
  }

  const SpecFile& file_;
  JsonFields top_;
  SettingsReader settings_;
};

// Loads the plugins first, because their algorithms add options.
void load_plugins_of(const JsonFields& specification) {
  const JsonFields settings = specification.object_or_empty("settings");
  if (!settings.has("plugin")) return;
  const json& value = settings.tree().at("plugin");
  for (const json& path : value.is_array() ? value : json::array({value})) {
    if (!path.is_string()) settings.refuse("plugin", "names of files");
    load_plugin({path, settings.place("plugin")}, build_stamp());
  }
}

}  // namespace

std::string SweepSpec::title(std::size_t cell) const {
  const std::string &setup = setup_of(cell).name, &method = case_of(cell).name;
  return setup + (setup.empty() || method.empty() ? "" : ", ") + method;
}

Goal SetupSpec::tuning_goal() const {
  Goal own = *goal;
  if (tuning->target) own.target->value = *tuning->target;
  return own;
}

SweepSpec read_sweep_spec(const std::string& path) {
  const std::shared_ptr<const SpecFile> file = read_spec_file(path);
  load_plugins_of(JsonFields(file));
  return SpecReader(file).read();
}

}  // namespace hetsgd
