#include "tune_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/non_copyable.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "printer.hpp"
#include "ranks.hpp"
#include "result/output.hpp"
#include "result/result.hpp"
#include "signals.hpp"

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

// The tunings of all cells, which differ in their algorithms alone, joined to one.
Tuning joint_tuning(const Sweep& sweep) {
  Tuning all;
  for (const CellTuning& cell : sweep.tunings()) {
    if (!cell.rate_tuning) continue;
    if (all.algorithms.empty()) {
      all = *cell.rate_tuning;
    } else {
      all.algorithms.push_back(cell.rate_tuning->algorithms.front());
    }
  }
  return all;
}

std::string score_text(const Goal& goal, const Trials& trials) {
  if (trials.empty()) return "";
  const Score score = score_of(goal, trials);
  if (!std::isfinite(score.value)) return "diverged";
  const bool in_time = goal.target && std::isfinite(score.time_to_target_s);
  if (in_time) return format_seconds(Seconds(score.time_to_target_s));
  return fmt::format(fmt::runtime(goal.target ? "({:.4f})" : "{:.4f}"), score.value);
}

// One row per algorithm, one column per learning rate, a star at the choice.
void print_choices(const Tuning& tuning) {
  std::vector<std::string> header = {"algorithm"};
  for (const double rate : tuning.grid) header.push_back(fmt::format("{}", rate));
  header.insert(header.end(), {"chosen", "samples", "training", "host"});
  Table table(header);
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    const std::optional<Choice> choice = choose(tuning, algorithm);
    const TuningCost cost = cost_of(algorithm.trials);
    std::vector<std::string> row = {algorithm.algorithm};
    for (std::size_t i = 0; i < tuning.grid.size(); ++i) {
      const bool chosen = choice && choice->place == i;
      row.push_back(score_text(tuning.goal, algorithm.trials[i]) + (chosen ? "*" : ""));
    }
    row.insert(row.end(),
               {choice ? fmt::format("{}", choice->learning_rate) : "-",
                format_count(static_cast<double>(cost.samples_count)),
                format_seconds(Seconds(cost.train_s)), format_seconds(Seconds(cost.wall_s))});
    table.add(std::move(row));
  }
  log_table(table);
  log_info(
      "{}, median over {} seed{}, by learning rate{}; the last three columns are the trials' cost",
      tuning.goal.target ? "time to " + tuning.goal.text() : "final " + tuning.goal.metric,
      tuning.seeds.size(), tuning.seeds.size() == 1 ? "" : "s",
      tuning.goal.target ? fmt::format(" (in brackets, if missed: final {})", tuning.goal.metric)
                         : "");
}

// Warns about facts that a user should know before relying on the choice.
void warn_about(const Tuning& tuning) {
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    for (std::size_t i = 0; i < tuning.grid.size(); ++i) {
      for (const TrialOutcome& trial : algorithm.trials[i]) {
        if (trial.status != "failed") continue;
        warn("{}: the trial with learning rate {} and seed {} failed: {}", algorithm.algorithm,
             tuning.grid[i], trial.seed, trial.status_reason);
      }
    }
    const std::optional<Choice> choice = choose(tuning, algorithm);
    if (!choice) {
      warn("{}: every trial diverged or failed, so there is no choice; try smaller learning rates",
           algorithm.algorithm);
    }
    if (choice) {
      warn_of_missed_target(tuning.goal, algorithm.trials[choice->place], algorithm.algorithm);
    }
    if (choice && choice->edge_of_grid) {
      warn(
          "{}: the best learning rate, {}, lies at the edge of the grid; a wider grid may have a "
          "better one",
          algorithm.algorithm, choice->learning_rate);
    }
  }
}

// Carries out the remaining trials, and prints a line for each one that ends.
SweepEnd run_trials(Sweep& sweep, const SweepPlan& plan, const Goal& goal) {
  const bool bar = detect_terminal().terminal;
  SweepProgress at;
  const auto say_so = [&](const PlannedRun& run, const std::string& text) {
    show_status("");
    const nlohmann::json about = sweep.about(run);
    log_info("{}/{}  {}  learning rate {}  seed {}: {}", ++at.done, at.all,
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
    say_so(run, trial.value ? outcome_text(goal, {&trial, 1}) : trial.status);
  };
  hooks.on_failure = [&](const FailedRun& failure) { say_so(failure.run, "failed"); };
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

}  // namespace

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
  const Tuning tuning = joint_tuning(sweep);
  print_choices(tuning);
  warn_about(tuning);
  if (training.output.empty()) {
    log_info("the choice was not written; -o FILE writes it");
  } else {
    json args(arguments);
    if (training.redact) redact_paths(args);
    write_result(training.output, tuning_json(tuning, args));
    if (training.output != "-") log_info("choice: {}", training.output);
  }
  if (sweep.failures().empty()) return 0;
  throw with_hint(
      runtime_failure("{} of {} trials failed; the first one: {}", sweep.failures().size(),
                      plan.trials().size(), sweep.failures().front().reason),
      "the same command with --resume runs them again");
}

}  // namespace hetsgd
