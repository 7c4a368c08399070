#include "tune_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "result/output.hpp"
#include "result/result.hpp"
#include "result/table.hpp"
#include "signals.hpp"
#include "train_run.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The file of the tuning, whole after every trial.
class ChoiceFile {
 public:
  ChoiceFile(const TrainOptions& training, std::vector<std::string> arguments)
      : path_(training.output), arguments_(json(std::move(arguments))) {
    if (training.redact) redact_paths(arguments_);
  }
  void write(const Tuning& tuning) const {
    if (!path_.empty()) write_result(path_, tuning_json(tuning, arguments_));
  }
  // What stands under the name from an earlier call that --resume goes on with; none: nothing does.
  std::optional<Tuning> earlier(const TrainOptions& training) const {
    if (!training.resume || training.overwrite || path_.empty() || is_stream(path_))
      return std::nullopt;
    if (!std::filesystem::is_regular_file(path_)) return std::nullopt;
    return tuning_of(read_tuning(path_));
  }
  bool once() const { return is_stream(path_); }

 private:
  std::string path_;
  json arguments_;
};

std::string score_text(const Goal& goal, const std::optional<Score>& score) {
  if (!score) return "";
  if (!std::isfinite(score->value)) return "diverged";
  const bool in_time = goal.target && std::isfinite(score->time_to_target_s);
  if (in_time) return format_seconds(Seconds(score->time_to_target_s));
  return fmt::format(fmt::runtime(goal.target ? "({:.4f})" : "{:.4f}"), score->value);
}

std::string trial_text(const Goal& goal, const Trial& trial) {
  std::string text =
      trial.value ? fmt::format("{} {:.4f}", goal.metric, *trial.value) : trial.status;
  if (goal.target && trial.value) {
    text += trial.time_to_target_s ? fmt::format(", {} after {}", goal.text(),
                                                 format_seconds(Seconds(*trial.time_to_target_s)))
                                   : fmt::format(", {} missed", goal.text());
  }
  return text;
}

// One row per algorithm, one column per learning rate, a star at the choice.
void print_choices(const Tuning& tuning) {
  std::vector<std::string> header = {"algorithm"};
  for (const double rate : tuning.grid) header.push_back(fmt::format("{}", rate));
  header.insert(header.end(), {"chosen", "samples", "training", "host"});
  Table table(header);
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    const std::optional<Choice> choice = choose(tuning, algorithm);
    const TuningCost cost = algorithm.cost();
    std::vector<std::string> row = {algorithm.algorithm};
    for (const double rate : tuning.grid) {
      const bool chosen = choice && choice->learning_rate == rate;
      row.push_back(score_text(tuning.goal, score(tuning, algorithm, rate)) + (chosen ? "*" : ""));
    }
    row.insert(row.end(),
               {choice ? fmt::format("{}", choice->learning_rate) : "-",
                format_count(static_cast<double>(cost.samples_count)),
                format_seconds(Seconds(cost.train_s)), format_seconds(Seconds(cost.wall_s))});
    table.add(std::move(row));
  }
  std::string text = table.format(TableFormat::text);
  text.pop_back();
  log_info("{}", text);
  log_info(
      "{}, median over {} seed{}, by learning rate{}; the last three columns: cost of the trials",
      tuning.goal.target ? "time to " + tuning.goal.text() : "final " + tuning.goal.metric,
      tuning.seeds.size(), tuning.seeds.size() == 1 ? "" : "s",
      tuning.goal.target ? fmt::format(" (missed: final {})", tuning.goal.metric) : "");
}

// What a person should know before relying on the choice. Returns the number of failed trials.
std::size_t warn_about(const Tuning& tuning) {
  std::size_t failed = 0;
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    for (const Trial& trial : algorithm.trials) {
      if (trial.status != "failed") continue;
      ++failed;
      warn("{}: the trial with learning rate {} and seed {} failed: {}", algorithm.algorithm,
           trial.learning_rate, trial.seed, trial.status_reason);
    }
    const std::optional<Choice> choice = choose(tuning, algorithm);
    if (!choice && tuning.complete(algorithm)) {
      warn("{}: no trial ended well, there is no choice; try smaller learning rates",
           algorithm.algorithm);
    }
    if (choice && choice->edge_of_grid) {
      warn(
          "{}: the best learning rate, {}, lies at the edge of the grid; a wider grid may have a "
          "better one",
          algorithm.algorithm, choice->learning_rate);
    }
  }
  return failed;
}

void report_trial(const Tuning& tuning, const AlgorithmTuning& algorithm, const Trial& trial,
                  std::size_t done, std::size_t all) {
  show_status("");
  log_info("{}/{}  {}  learning rate {}  seed {}: {}", done, all, algorithm.algorithm,
           trial.learning_rate, trial.seed, trial_text(tuning.goal, trial));
}

TunerEnd run_trials(Tuner& tuner, const ChoiceFile& file) {
  const bool bar = detect_terminal().terminal;
  const std::size_t all = tuner.trials_left();
  std::size_t done = 0;
  TunerHooks hooks;
  hooks.on_trial = [&](const AlgorithmTuning& algorithm, const Trial& trial) {
    if (!file.once()) file.write(tuner.tuning());
    report_trial(tuner.tuning(), algorithm, trial, ++done, all);
  };
  hooks.on_running = [&](std::size_t trials) {
    if (bar) show_status(fmt::format("{}/{}  {} running", done, all, trials));
  };
  hooks.on_progress = [&](const Progress& progress) {
    show_status(fmt::format("{}/{}  {}", done + 1, all, progress_text(progress, bar)));
  };
  hooks.signal = &catch_signals();
  tuner.load();
  const TunerEnd end = tuner.run(hooks);
  show_status("");
  file.write(tuner.tuning());
  return end;
}

}  // namespace

int run_tuning(TunerOptions options, const TrainOptions& training,
               const std::vector<std::string>& arguments) {
  start_log_as(training);
  const ChoiceFile file(training, arguments);
  Tuner tuner(std::move(options));
  if (const std::optional<Tuning> earlier = file.earlier(training)) {
    tuner.resume(*earlier, training.output);
    log_info("{}: {}", training.output,
             tuner.trials_left() == 0
                 ? std::string("has all trials, nothing to do")
                 : fmt::format("goes on, {} trials are left", tuner.trials_left()));
  }
  const TunerEnd end = tuner.trials_left() == 0 ? TunerEnd::completed : run_trials(tuner, file);
  print_choices(tuner.tuning());
  const std::size_t failed = warn_about(tuner.tuning());
  if (training.output.empty()) {
    log_info("no choice was kept: name a file with -o");
  } else if (training.output != "-") {
    log_info("choice: {}", training.output);
  }
  if (end == TunerEnd::aborted) return 128 + received_signal();
  if (end == TunerEnd::time_limit) return static_cast<int>(ExitCode::time_limit);
  return static_cast<int>(failed > 0 ? ExitCode::runtime : ExitCode::ok);
}

}  // namespace hetsgd
