// hetsgd tune: a learning rate for each algorithm, with equal budgets.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "cluster/process_group.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/non_copyable.hpp"
#include "core/options.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "experiment/sweep.hpp"
#include "printer.hpp"
#include "ranks.hpp"
#include "result/output.hpp"
#include "result/result.hpp"
#include "signals.hpp"
#include "train_session.hpp"
#include "training/evaluation.hpp"
#include "training/run_data.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The folder of the trials.
class TrialFolder : NonCopyable {
 public:
  explicit TrialFolder(const TrainOptions& training) {
    goes_ = training.output.empty() || is_stream(training.output);
    path_ = goes_ ? temporary() : training.output + ".trials";
    if (!goes_ && training.overwrite) remove();
  }
  ~TrialFolder() {
    if (goes_) remove();
  }

  const std::string& path() const { return path_; }

 private:
  static std::string temporary() {
    std::error_code failed;
    const fs::path parent = fs::temp_directory_path(failed);
    std::string name = (parent / "hetsgd-trials-XXXXXX").string();
    if (!failed && ::mkdtemp(name.data()) != nullptr) return name;
    throw with_hint(runtime_failure("{}: cannot create a folder for trials: {}", name,
                                    failed ? failed.message() : std::strerror(errno)),
                    "set TMPDIR to another folder, or keep the trials beside -o FILE");
  }
  void remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::string path_;
  bool goes_ = false;
};

std::string score_text(const Goal& goal, const Trials& trials) {
  const Score score = score_of(goal, trials);
  if (!std::isfinite(score.value)) return "diverged";
  const bool in_time = goal.target && std::isfinite(score.time_to_target_s);
  if (in_time) return format_seconds(Seconds(score.time_to_target_s));
  return fmt::format(fmt::runtime(goal.target ? "({:.4f})" : "{:.4f}"), score.value);
}

// One row per algorithm, one column per learning rate, a star at the choice.
void print_choices(const std::vector<Tuning>& tunings) {
  const Tuning& first = tunings.front();
  std::vector<std::string> header = {"algorithm"};
  for (const TriedPoint& each : first.points)
    header.push_back(fmt::format("{}", each.learning_rate()));
  header.insert(header.end(), {"chosen", "samples", "training", "host"});
  Table table(header);
  for (const Tuning& tuning : tunings) {
    const TuningCost cost = cost_of(tuning.points);
    std::vector<std::string> row = {tuning.algorithm};
    for (std::size_t i = 0; i < tuning.points.size(); ++i) {
      row.push_back(score_text(tuning.goal, tuning.points[i].trials) +
                    (tuning.best == i ? "*" : ""));
    }
    row.insert(row.end(),
               {tuning.best ? fmt::format("{}", tuning.points[*tuning.best].learning_rate()) : "-",
                format_count(static_cast<double>(cost.samples_count)),
                format_seconds(Seconds(cost.train_s)), format_seconds(Seconds(cost.wall_s))});
    table.add(std::move(row));
  }
  log_table(table);
  const Goal& goal = first.goal;
  log_info(
      "{}, median over {} seed{}, by learning rate{}; the last three columns are the trials' cost",
      goal.target ? "time to " + goal.text() : "final " + goal.metric, first.seeds.size(),
      first.seeds.size() == 1 ? "" : "s",
      goal.target ? fmt::format(" (in brackets, if missed: final {})", goal.metric) : "");
}

// Carries out the remaining trials, and prints a line for each one that ends.
SweepEnd run_trials(Sweep& sweep, const SweepPlan& plan, const Goal& goal) {
  const bool bar = detect_terminal().terminal;
  SweepProgress at;
  const auto line_of = [&](const PlannedRun& run, const std::string& text) {
    show_status("");
    const nlohmann::json about = sweep.about(run);
    return fmt::format("{}/{}  {}  learning rate {}  seed {}: {}", ++at.done, at.all,
                       about["algorithm"].get<std::string>(),
                       about["parameters"]["learning_rate"].get<double>(), run.seed, text);
  };
  SweepHooks hooks;
  hooks.on_progress = [&](const SweepProgress& progress) {
    if (progress.all == 0) return;
    at = progress;
    if (bar) show_status(fmt::format("{}/{}  {} running", at.done, at.all, at.running));
  };
  hooks.on_done = [&](const PlannedRun& run, const nlohmann::json& result) {
    const TrialOutcome trial = judge(result, goal);
    log_info("{}", line_of(run, trial.value ? outcome_text(goal, {&trial, 1}) : trial.status));
  };
  hooks.on_failure = [&](const FailedRun& failure) {
    warn("{}", line_of(failure.run, "failed: " + failure.reason));
  };
  hooks.signal = &catch_signals();
  const std::vector<bool> done = sweep.find_done(plan.trials(), /*remember=*/false);
  const auto left = static_cast<std::size_t>(std::ranges::count(done, false));
  at.all = done.size();
  at.done = done.size() - left;
  if (left == 0) {
    log_info("all trials have been run");
  } else if (at.done > 0) {
    log_info("{} of {} trials have been run", at.done, at.all);
  }
  const SweepEnd end = sweep.run(hooks);
  show_status("");
  return end;
}

// Runs the trials of a specification that has no other runs, and writes the choice when all have
// ended. `training` has the output file and the options of reporting. Trials are kept in a folder
// beside the choice (OUTPUT.trials). So the same command resumes an interrupted tuning, and one
// with more algorithms, rates or seeds runs only the new trials. Without an output file, or with a
// stream, the folder is temporary.
//
// Exit codes: 0: success, also if trials diverged. 1: a trial failed. 6: --time-limit. 128 +
// signal: interrupted.
int run_tuning(const SweepSpec& spec, const SweepOptions& options, const TrainOptions& training,
               const std::vector<std::string>& arguments) {
  SweepPlan plan(spec, /*any_number=*/true);
  const TrialFolder trials(training);
  const SweepFolder folder(trials.path(), spec.name);
  Sweep sweep(plan, folder, options);
  folder.open(spec);
  const SweepEnd end = run_trials(sweep, plan, *spec.setups.front().goal);
  const bool has_ended = end == SweepEnd::completed || end == SweepEnd::failed;
  if (!has_ended) {
    log_info("there is no choice until all trials have ended; the same command resumes them");
    if (end == SweepEnd::aborted) return 128 + received_signal();
    return static_cast<int>(ExitCode::time_limit);
  }
  print_choices(sweep.tunings());
  for (const Tuning& tuning : sweep.tunings()) {
    for (const std::string& text : warnings_of(tuning)) warn("{}: {}", tuning.algorithm, text);
  }
  if (training.output.empty()) {
    log_info("the choice was not written; -o FILE writes it");
  } else {
    json args(arguments);
    if (training.redact) redact_paths(args);
    write_result(training.output, tuning_json(sweep.tunings(), args));
    if (training.output != "-") log_info("choice: {}", training.output);
  }
  if (sweep.failures().empty()) return 0;
  throw with_hint(
      runtime_failure("{} of {} trials failed; the first one: {}", sweep.failures().size(),
                      plan.trials().size(), sweep.failures().front().reason),
      "the same command with --resume runs them again");
}

class Tune final : public Command {
 public:
  Tune() { options_.validation = 0.1; }

  CommandInfo info() const override {
    return {
        .name = "tune",
        .summary = "choose a learning rate for each algorithm, with equal budgets",
        .examples = {"hetsgd tune --train generate:tiny --algorithms ssgd,adaptive --workers 4 \\\n"
                     "      --grid 0.1,0.3,1 --goal 'p1>=0.5' --epochs 5 -o choice.json",
                     "hetsgd tune --train train.txt --algorithms ssgd,asgd,ssp --staleness 4 \\\n"
                     "      --workers 8 --grid 0.01:1:5 --tune-seeds 1,2 --epochs 5 -o choice.json",
                     "hetsgd train --algorithm ssgd --tuned choice.json --train train.txt \\\n"
                     "      --test test.txt --workers 4 --epochs 5 -o ssgd.json"}};
  }

  // The algorithms and the model determine the options, so they are read first.
  void look_ahead(const std::vector<std::string>& arguments) override {
    arguments_ = arguments;
    OptionSet first;
    first.add("plugin", options_.plugin, "");
    first.add("algorithm", options_.algorithm, "");
    first.add("algorithms", algorithms_, "");
    std::string model = options_.model;
    first.add("model", model, "");
    first.add("config", config_path_, "");
    config_ = read_first(first, config_path_, arguments);
    options_.choose_model(model);
    const std::string names = algorithms_.empty() ? options_.algorithm : algorithms_;
    for (const auto name : split(names, ',')) {
      names_.push_back(find_algorithm(std::string(trim(name))).info.name);
    }
  }

  void declare(OptionSet& set) override {
    set.group("Configuration");
    set.add("config", config_path_,
            "JSON file with options, or a result whose options are repeated. Flags and environment "
            "variables override them.")
        .reads_file();
    set.group("Tuning");
    set.add("algorithms", algorithms_,
            "Algorithms to tune, separated by commas. Default: the one of --algorithm.");
    set.add("grid", grid_,
            "Learning rates to try, the same for every algorithm: a list such as 0.03,0.1,0.3, or "
            "FROM:TO:COUNT with equal ratios, such as 0.01:1:5.");
    set.add("tune_seeds", seeds_,
            "Seeds of the trials, separated by commas. The median over them decides.");
    set.add("goal", goal_,
            "Criterion for the choice: the final value of a metric (p1), or the time to a target "
            "(p1>=0.6). If times are equal or the target is missed, the final value decides. "
            "Default: the final value of the main metric of the data (p1, accuracy).");
    set.add(
           "jobs", jobs_,
           "Number of trials at the same time if time is simulated. Trials in real time always run "
           "alone. auto: as many as cores.")
        .range(1, kMostHostThreads);
    set.add("launch", launch_,
            "Command that starts the processes of trials with --cluster mpi, such as mpirun -n "
            "{ranks}.");
    options_.declare(set);
    declare_algorithms(set);
  }

  std::string about_unknown(const std::string& flag) const override {
    for (const auto& [all, chosen_by] : {std::pair(options_of_all_algorithms(), "--algorithms"),
                                         std::pair(options_of_all_models(), "--model")}) {
      const std::string owners = owners_of(all, flag);
      if (owners.empty()) continue;
      return fmt::format("{} is an option of {}, which {} does not name", flag, owners, chosen_by);
    }
    return "";
  }

  void settle(OptionSet& set) override {
    read_config(set);
    read_environment(set);
    refuse_what_trials_decide(set);
  }

  int run(OptionSet& set, const std::vector<std::string>&) override {
    if (launched()) {
      refuse("tune", "a launcher (mpirun, srun) that started it", "a start without launcher",
             "--launch 'mpirun -n {ranks}' starts its trials");
    }
    start_log_as(options_);
    SweepOptions sweep{.redact = options_.redact};
    sweep.jobs = jobs_.value_or(sweep.cores);
    if (options_.time_limit.count() > 0) sweep.max_wall = options_.time_limit;
    std::vector<std::string> arguments = {"tune"};
    arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
    return run_tuning(specification(set), sweep, options_, arguments);
  }

 private:
  // Options of several algorithms may share a name and differ in type and range, so they stay texts
  // here. Each algorithm parses them when its trials are set up.
  void declare_algorithms(OptionSet& set) {
    set.group("Options of the tuned algorithms");
    const std::vector<ForeignOption> all = options_of_all_algorithms();
    for (const ForeignOption& foreign : all) {
      const Option& option = foreign.option;
      const bool wanted = std::find(names_.begin(), names_.end(), foreign.owner) != names_.end();
      if (!wanted || set.find(option.name) != nullptr) continue;
      const std::string help =
          fmt::format("For {}: {}", owners_of(all, option.flag()), option.help);
      if (option.type == OptionType::boolean) {
        set.add(option.name, switches_[option.name], help);
      } else {
        set.add(option.name, texts_[option.name], help);
      }
      own_.insert(option.name);
    }
  }

  // Reads the configuration file. It may come from a run of another algorithm or model, whose own
  // options are left out.
  void read_config(OptionSet& set) const {
    for (const auto& [key, value] : config_.items()) {
      const std::string place = fmt::format("{}: {}", config_path_, key);
      if (set.find(key) == nullptr && !about_unknown(key).empty()) continue;
      if (set.find(key) == nullptr) throw unknown_key(set, key, place);
      const bool text_of_algorithm = own_.contains(key) && !value.is_boolean();
      set.set_json(key, text_of_algorithm ? texts_of(value) : value, OptionSource::config_file,
                   place);
    }
  }

  static json texts_of(const json& value) {
    if (value.is_array()) {
      json texts = json::array();
      for (const json& each : value) texts.push_back(texts_of(each));
      return texts;
    }
    return value.is_string() ? value : json(value.dump());
  }

  void refuse_what_trials_decide(const OptionSet& set) const {
    static const std::map<std::string, std::string> kInstead = {
        {"learning_rate", "--grid lists the learning rates"},
        {"seed", "--tune-seeds lists the seeds"},
        {"stop_at_target", "every trial has the same budget; --goal decides"},
        {"require_target", "--goal decides"}};
    for (const Option& option : set.options()) {
      // Options for output files are refused from any source, because every trial would write the
      // same file.
      if (option.files.role != FileRole::written || option.name == "output") continue;
      if (option.to_json() == "") continue;
      throw with_hint(
          usage_error("{}: not an option of tune", option.place),
          fmt::format("hetsgd train --tuned CHOICE {} FILE repeats a trial and writes it",
                      option.flag()));
    }
    for (const auto& [name, instead] : kInstead) {
      const Option& option = *set.find(name);
      if (option.source != OptionSource::flag) continue;
      throw with_hint(usage_error("{}: not an option of tune", option.flag()), instead);
    }
    if (options_.validation <= 0) {
      refuse("--validation", "0",
             "a share above 0, because learning rates are chosen on held-out rows");
    }
    if (!options_.test.empty())
      log_info("--test {} is not used, because held-out rows decide", options_.test);
    if (seeds_.empty()) refuse("--tune-seeds", "none", "at least one seed");
  }

  // The specification of a sweep without final runs, with one case per algorithm.
  SweepSpec specification(const OptionSet& set) const {
    SweepSpec spec;
    spec.name = "tune";
    spec.launch = launch_;
    spec.settings = settings(set);
    TuningSpec tuning;
    tuning.seeds = seeds_;
    SearchAxis rates{.names = {"learning_rate"}, .place = "--grid"};
    for (const double rate : parse_grid(grid_, "--grid")) rates.rows.push_back({rate});
    tuning.space.axes.push_back(std::move(rates));
    spec.setups.push_back({.goal = goal(spec.settings), .tuning = std::move(tuning)});
    for (const std::string& name : names_) {
      if (std::ranges::count(names_, name) > 1) {
        refuse("--algorithms", name + " twice", "each algorithm once");
      }
      spec.cells.push_back({.setup = 0, .method = spec.cases.size()});
      spec.cases.push_back(
          {.name = name, .settings = {{"algorithm", name, OptionSource::flag, "--algorithms"}}});
    }
    return spec;
  }

  // The goal of --goal, or the first metric of the data. Mistakes in the data, or common to all
  // trials, show here.
  Goal goal(const std::vector<Setting>& settings) const {
    Goal goal;
    if (!goal_.empty()) goal = parse_goal(goal_, "--goal");
    ConfiguredRun run(names_.front(), settings);
    DataCache cache;
    if (!cluster_kind(run.options().cluster).join) Training(run.spec()).load(&cache);
    const RunData& data = cache.get(run.options());
    const Dataset& train = *data.train.data;
    if (goal.metric.empty()) goal.metric = first_metric_of(train);
    check_measured(goal.metric, DataShape::of(train, *data.test.data), *data.test.data, "--goal",
                   goal.text());
    return goal;
  }

  // All settings that were given, and the validation split.
  std::vector<Setting> settings(const OptionSet& set) const {
    static const std::set<std::string> kNotForTrials = {
        "algorithm", "test", "seed", "learning_rate", "time_limit", "config", "stop_at_target"};
    std::vector<Setting> result;
    for (const Option& option : set.options()) {
      const bool given = option.source != OptionSource::default_value;
      if (option.of_call || kNotForTrials.contains(option.name)) continue;
      if (!given && option.name != "validation") continue;
      result.push_back(
          {option.name, option.to_json(), option.source, given ? option.place : option.flag()});
    }
    return result;
  }

  TrainOptions options_;
  std::vector<std::string> arguments_;
  std::string config_path_;
  json config_ = json::object();
  std::string algorithms_;
  std::vector<std::string> names_;
  std::string grid_ = "0.03,0.1,0.3,1,3";
  std::vector<std::uint64_t> seeds_ = {1};
  std::string goal_;
  std::optional<int> jobs_;
  std::string launch_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::map<std::string, bool> switches_;
  std::set<std::string> own_;  // names in texts_ and switches_
};

}  // namespace

const bool tune_registered = register_command<Tune>(CommandGroup::run, 3);

}  // namespace hetsgd
