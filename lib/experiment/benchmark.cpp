#include "experiment/benchmark.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>

#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/text.hpp"
#include "experiment/configured_run.hpp"
#include "experiment/sweep_folder.hpp"
#include "result/result.hpp"
#include "result/statistics.hpp"
#include "result/time_to_accuracy.hpp"
#include "training/train_options.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kSweepFile = ".sweep.json";

// The options that the rules fix. A method may set only the algorithm, its own options, and those
// of the optimizer and the schedule.
const std::set<std::string>& fixed_options() {
  static const std::set<std::string> kFixed = [] {
    TrainOptions all;
    OptionSet set, free;
    all.declare(set);
    OptimizerOptions optimizer;
    Schedule schedule;
    optimizer.declare(free);
    schedule.declare(free);
    std::set<std::string> fixed = {"config"};
    for (const Option& option : set.options()) {
      if (free.find(option.name) == nullptr) fixed.insert(option.name);
    }
    for (const ForeignOption& each : options_of_all_models()) fixed.insert(each.option.name);
    fixed.erase("algorithm");
    return fixed;
  }();
  return kFixed;
}

// The part of a specification that all entries have in common.
json rules_of(const json& specification) {
  json rules = essence(specification);
  for (const char* const key : {"name", "cases"}) rules.erase(key);
  if (rules.contains("settings") && rules["settings"].is_object())
    rules["settings"].erase("plugin");
  return rules;
}

std::string why_no_method(const json& method, const std::string& place) {
  if (!method.is_object() || !method.contains("name") || !method["name"].is_string()) {
    return fmt::format("{}: expected a method with a name", place);
  }
  const json& settings = method.contains("settings") ? method["settings"] : json::object();
  for (const auto& [key, value] : method.items()) {
    if (key != "name" && key != "about" && key != "settings") {
      return fmt::format("{}.{}: the benchmark tunes all methods by one protocol", place, key);
    }
  }
  for (const auto& [key, value] : settings.items()) {
    if (fixed_options().contains(key)) {
      return fmt::format("{}.settings.{}: the benchmark fixes this option for all methods", place,
                         key);
    }
  }
  return "";
}

// The result file by setup, case and seed.
using Files = std::map<std::tuple<std::string, std::string, std::uint64_t>, std::string>;

Files files_of(const SweepFolder& folder) {
  Files files;
  folder.read_index().for_each([&](const json& line) {
    if (line.value("stage", "") != "final" || !line["file"].is_string()) return;
    files[{line["setup"], line["case"], line["seed"]}] =
        fmt::format("{}/{}", folder.path(), line["file"].get<std::string>());
  });
  return files;
}

// Adds the tuning cost of one problem, which all its results repeat.
void add_tuning(const json& tuning, BenchmarkMethod& method) {
  if (!tuning.is_object()) return;
  method.tuning_trials += tuning["trials"].get<std::uint64_t>();
  method.tuning_samples += tuning["samples_count"].get<std::uint64_t>();
  method.tuning_train_s += tuning["train_s"].get<double>();
  method.edges += tuning["edge_of_grid"].get<bool>() ? 1 : 0;
}

Target relaxed(Target target, double by) {
  target.value += (target.at_least ? -by : by) * std::abs(target.value);
  return target;
}

// Collects the methods of sweeps, one sweep after the other.
class BenchmarkReader {
 public:
  BenchmarkReader(const SweepSpec& spec, std::string folder)
      : spec_(spec), folder_(std::move(folder)) {
    benchmark_.name = spec.name;
    benchmark_.seeds = spec.seeds.size();
    for (const SetupSpec& setup : spec.setups) {
      benchmark_.problems.push_back({setup.name, *setup.goal->target, {}});
    }
  }

  void add_sweep(const std::string& name, const json& cases) {
    const Files files = files_of(SweepFolder(folder_, name));
    for (const json& each : cases) add_method(each["name"], name, files);
  }

  void note(const std::string& text) { benchmark_.notes.push_back(text); }

  Benchmark finish() {
    if (times_.front().empty()) {
      throw with_hint(
          usage_error("{}: found no method with all its runs", folder_),
          fmt::format("hetsgd sweep {} -o {} runs what is missing", spec_.path, folder_));
    }
    const std::vector<MethodScore> scores = score_methods(times_.front());
    for (std::size_t m = 0; m < scores.size(); ++m) benchmark_.methods[m].score = scores[m];
    for (std::size_t i = 0; i < kRelaxed.size(); ++i) {
      const std::vector<MethodScore> relaxed = score_methods(times_[i + 1]);
      for (std::size_t m = 0; m < scores.size(); ++m) benchmark_.methods[m].relaxed[i] = relaxed[m];
    }
    for (std::size_t p = 0; p < benchmark_.problems.size(); ++p) {
      BenchmarkProblem& problem = benchmark_.problems[p];
      problem.best_time_s = std::numeric_limits<double>::infinity();
      for (const MethodScore& score : scores) {
        problem.best_time_s = std::min(problem.best_time_s, score.median_s[p]);
      }
      if (problem.data.size() > 1) {
        note(fmt::format("{}: runs have different training data, {}", problem.name,
                         fmt::join(problem.data, ", ")));
      }
    }
    if (benchmark_.revisions.size() > 1) {
      note(fmt::format("runs were made by different revisions of the program: {}",
                       fmt::join(benchmark_.revisions, ", ")));
    }
    std::ranges::sort(benchmark_.methods, {}, [](const BenchmarkMethod& each) {
      return std::tie(each.score.rank, each.name);
    });
    return std::move(benchmark_);
  }

 private:
  void add_method(const std::string& name, const std::string& sweep, const Files& files) {
    if (!names_.insert(name).second) {
      return note(fmt::format("{} of the sweep {} is left out: its name is taken", name, sweep));
    }
    BenchmarkMethod method{.name = name, .algorithm = "", .sweep = sweep};
    const MethodTimes none{name, std::vector<std::vector<double>>(benchmark_.problems.size())};
    std::array<MethodTimes, 1 + kRelaxed.size()> times;
    times.fill(none);
    method.is_entry = sweep != spec_.name;
    method.reached.resize(benchmark_.problems.size());
    std::size_t missing = 0;
    for (std::size_t p = 0; p < benchmark_.problems.size(); ++p) {
      for (const std::uint64_t seed : spec_.seeds) {
        const auto file = files.find({benchmark_.problems[p].name, name, seed});
        if (file == files.end() || !fs::exists(file->second)) {
          ++missing;
          continue;
        }
        const json result = read_json(file->second);
        if (!result.is_object() || !result.contains("curve") || !is_done(result["status"])) {
          ++missing;
          continue;
        }
        add_times(p, result, times);
        read_run(p, result, method);
        if (times.front().times_s[p].size() == 1) {
          add_tuning(result.value("tuning", json()), method);
        }
      }
    }
    if (missing > 0) {
      note(fmt::format("{} is left out: {} of its {} runs are missing", name, missing,
                       spec_.seeds.size() * benchmark_.problems.size()));
    } else {
      for (std::size_t i = 0; i < times.size(); ++i) times_[i].push_back(std::move(times[i]));
      benchmark_.methods.push_back(std::move(method));
    }
  }

  // Adds the time to the target of a problem and to the relaxed ones.
  void add_times(std::size_t problem, const json& result,
                 std::array<MethodTimes, 1 + kRelaxed.size()>& times) const {
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Target& target = benchmark_.problems[problem].target;
      const auto held = time_to(result, i == 0 ? target : relaxed(target, kRelaxed[i - 1])).held;
      times[i].times_s[problem].push_back(held ? held->time_s
                                               : std::numeric_limits<double>::infinity());
    }
  }

  // Adds the facts that a run contributes to its problem and method.
  void read_run(std::size_t problem, const json& result, BenchmarkMethod& method) {
    BenchmarkProblem& of = benchmark_.problems[problem];
    of.data.insert(result["dataset"]["train"].value("content_hash", "?"));
    benchmark_.revisions.insert(result["tool"].value("git_revision", "?"));
    method.algorithm = result["config"]["algorithm"];
    method.reached[problem] += time_to(result, of.target).held ? 1 : 0;
  }

  const SweepSpec& spec_;
  std::string folder_;
  Benchmark benchmark_;
  // To the target and to the relaxed ones, in the order of benchmark_.methods.
  std::array<std::vector<MethodTimes>, 1 + kRelaxed.size()> times_;
  std::set<std::string> names_;  // also of omitted methods
};

json problem_json(const BenchmarkProblem& problem) {
  return {{"name", problem.name},
          {"target", problem.target.text()},
          {"train_content_hash", problem.data},
          {"best_time_s", problem.best_time_s}};
}

json method_json(const BenchmarkMethod& method) {
  const MethodScore& score = method.score;
  json relaxed = json::array();
  for (std::size_t i = 0; i < kRelaxed.size(); ++i) {
    const MethodScore& each = method.relaxed[i];
    relaxed.push_back({{"by", kRelaxed[i]},
                       {"rank", each.rank},
                       {"score", each.score},
                       {"score_low", each.low},
                       {"score_high", each.high}});
  }
  return {{"name", method.name},
          {"algorithm", method.algorithm},
          {"sweep", method.sweep},
          {"is_entry", method.is_entry},
          {"rank", score.rank},
          {"rank_low", score.rank_low},
          {"rank_high", score.rank_high},
          {"score", score.score},
          {"score_low", score.low},
          {"score_high", score.high},
          {"relaxed", std::move(relaxed)},
          {"solved", score.solved},
          {"time_s", score.median_s},
          {"ratio", score.ratios},
          {"reached", method.reached},
          {"tuning",
           {{"trials", method.tuning_trials},
            {"samples_count", method.tuning_samples},
            {"train_s", method.tuning_train_s},
            {"edges_of_grid", method.edges}}}};
}

std::string ratio_text(double ratio) {
  return std::isinf(ratio) ? "inf" : fmt::format("{:.2f}", ratio);
}

std::string problem_line(const BenchmarkProblem& problem, const std::vector<BenchmarkMethod>& all,
                         std::size_t p) {
  constexpr std::size_t kMostNames = 3;
  std::vector<std::string> best;
  for (const BenchmarkMethod& method : all) {
    if (method.score.ratios[p] == 1) best.push_back(method.name);
  }
  if (best.size() > kMostNames) {
    best = {fmt::format("{} methods", best.size())};
  }
  return fmt::format(
      "{}, {}: {}", problem.name, problem.target.text(),
      best.empty() ? "no method reached it"
                   : fmt::format("best {:.4g} s, {}", problem.best_time_s, fmt::join(best, ", ")));
}

}  // namespace

void check_benchmark(const SweepSpec& spec) {
  for (const SetupSpec& setup : spec.setups) {
    if (setup.goal && setup.goal->target) continue;
    throw usage_error("{}: setup {}: found no target, expected metric.goal = \"time_to_target\"",
                      spec.path, quote(setup.name));
  }
  if (spec.cells.size() != spec.setups.size() * spec.cases.size()) {
    throw usage_error("{}: only: a benchmark runs every case on every setup", spec.path);
  }
  if (!spec.space.axes.empty()) {
    throw usage_error("{}: parameters: each case of a benchmark is one configuration", spec.path);
  }
  const std::string reason = why_no_entry(spec, spec.written);
  if (!reason.empty()) throw usage_error("{}: {}", spec.path, reason);
}

std::string why_no_entry(const SweepSpec& spec, const json& entry) {
  const std::string difference = first_difference_in(rules_of(spec.written), rules_of(entry));
  if (!difference.empty()) return fmt::format("{} differs from {}", difference, spec.path);
  if (!entry.contains("cases") || !entry["cases"].is_array() || entry["cases"].empty()) {
    return "cases: expected at least one method";
  }
  for (std::size_t i = 0; i < entry["cases"].size(); ++i) {
    const std::string reason = why_no_method(entry["cases"][i], fmt::format("cases[{}]", i));
    if (!reason.empty()) return reason;
  }
  return "";
}

Benchmark read_benchmark(const SweepSpec& spec, const std::string& folder) {
  check_benchmark(spec);
  std::vector<std::string> sweeps;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kSweepFile)) {
      sweeps.push_back(name.substr(0, name.size() - kSweepFile.size()));
    }
  }
  if (failed) throw data_error("{}: cannot read the folder: {}", folder, failed.message());
  // The methods of record come first, so that no entry takes their names.
  std::ranges::sort(sweeps, {},
                    [&](const std::string& name) { return std::pair(name != spec.name, name); });
  BenchmarkReader reader(spec, folder);
  for (const std::string& name : sweeps) {
    const json specification = specification_in(SweepFolder(folder, name).specification_file());
    const std::string reason = specification.is_null() ? "not the specification of a sweep"
                                                       : why_no_entry(spec, specification);
    if (reason.empty()) {
      reader.add_sweep(name, specification["cases"]);
    } else {
      reader.note(fmt::format("the sweep {} is left out: {}", name, reason));
    }
  }
  return reader.finish();
}

// --- the standing as a table and as a document ---------------------------------------------------

json standing_json(const Benchmark& benchmark) {
  json document = {{"schema_version", "1.0"},
                   {"kind", "standing"},
                   {"name", benchmark.name},
                   {"tool", tool_json()},
                   {"run_revisions", benchmark.revisions},
                   {"seeds", benchmark.seeds},
                   {"profile_end", kProfileEnd},
                   {"resamples", kResamples},
                   {"problems", json::array()},
                   {"methods", json::array()},
                   {"notes", benchmark.notes}};
  for (const BenchmarkProblem& each : benchmark.problems) {
    document["problems"].push_back(problem_json(each));
  }
  for (const BenchmarkMethod& each : benchmark.methods) {
    document["methods"].push_back(method_json(each));
  }
  explain_nonfinite(document);
  escape_bytes(document);
  return document;
}

Table standing_table(const Benchmark& benchmark) {
  std::vector<std::string> header = {"method", "rank", "score"};
  for (const double by : kRelaxed) header.push_back(fmt::format("-{:g} %", 100 * by));
  header.push_back("solved");
  for (std::size_t p = 0; p < benchmark.problems.size(); ++p) {
    header.push_back(fmt::format("({})", p + 1));
  }
  header.push_back("edges");
  Table table(header);
  for (const BenchmarkMethod& method : benchmark.methods) {
    const MethodScore& score = method.score;
    std::vector<std::string> row = {
        method.name + (method.is_entry ? " *" : ""),
        fmt::format("{} [{}, {}]", score.rank, score.rank_low, score.rank_high),
        fmt::format("{:.3f} [{:.3f}, {:.3f}]", score.score, score.low, score.high)};
    for (const MethodScore& each : method.relaxed) row.push_back(fmt::format("{:.3f}", each.score));
    row.push_back(fmt::format("{}/{}", score.solved, benchmark.problems.size()));
    for (const double ratio : score.ratios) row.push_back(ratio_text(ratio));
    row.push_back(fmt::format("{}", method.edges));
    table.add(row);
  }
  return table;
}

std::string standing_report(const Benchmark& benchmark, TableFormat format) {
  const char* const bullet = format == TableFormat::markdown ? "\n" : "";
  std::string text = standing_table(benchmark).format(format) + "\n";
  text += fmt::format(
      "score: area under the performance profile up to {} times the best time, 1 is best; "
      "brackets:\n"
      "95 % bootstrap intervals over {} seeds. -1 %, -2 %: the score at targets relaxed by so "
      "much.\n"
      "(1) to ({}): median time to the target over the best one, inf: missed. edges: of so many\n"
      "problems the tuned rate is an end of the grid, where a better one may lie beyond. *: an\n"
      "entry, not one of the methods of record.\n{}",
      kProfileEnd, benchmark.seeds, benchmark.problems.size(), bullet);
  for (std::size_t p = 0; p < benchmark.problems.size(); ++p) {
    text += fmt::format("{}({}) {}\n", format == TableFormat::markdown ? "- " : "", p + 1,
                        problem_line(benchmark.problems[p], benchmark.methods, p));
  }
  return text;
}

}  // namespace hetsgd
