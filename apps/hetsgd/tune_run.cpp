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

}  // namespace hetsgd
