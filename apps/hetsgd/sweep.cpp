// hetsgd sweep: many runs by one specification.
#include "experiment/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <tuple>

#include "cluster/process_group.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/logging.hpp"
#include "core/options.hpp"
#include "core/text.hpp"
#include "experiment/worker_pool.hpp"
#include "printer.hpp"
#include "signals.hpp"
#include "training/simulation/estimate.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 20;  // failed runs that are named
constexpr Seconds kMostEstimating{60};  // time limit for trials of a plan

std::string point_text(const std::vector<Setting>& point) {
  std::string text;
  for (const Setting& each : point) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", each.name,
                        each.value.is_number_float() ? fmt::format("{}", each.value.get<double>())
                                                     : each.value.dump());
  }
  return text;
}

std::string run_title(const SweepPlan& plan, const PlannedRun& run) {
  const SweepSpec& spec = plan.spec();
  std::string title = spec.title(run.cell);
  const std::string point = point_text(plan.candidate(run).point);
  if (!point.empty()) title += (title.empty() ? "" : ", ") + point;
  return fmt::format("{}{}seed {}", title, title.empty() ? "" : ", ", run.seed);
}

// Prints the status line at a rate that a reader can follow.
class SweepStatus {
 public:
  explicit SweepStatus(bool terminal) : every_s_(terminal ? 0.25 : 10) {}

  void show(const SweepProgress& p) {
    const bool over = p.done + p.failed == p.all;
    if (seconds_since(last_) < every_s_ && !(over && !shown_)) return;
    last_ = HostClock::now();
    shown_ = true;
    std::string text =
        fmt::format("{}{}/{}", p.stage == SweepStage::tuning ? "tuning " : "", p.done, p.all);
    if (p.running > 0) text += fmt::format("  {} running", p.running);
    if (p.failed > 0) text += fmt::format("  {} failed", p.failed);
    if (p.remaining && !over) text += fmt::format("  ETA {}", format_seconds(*p.remaining));
    show_status(text);
  }

 private:
  double every_s_;
  HostClock::time_point last_ = HostClock::now();
  bool shown_ = false;
};

// One row per tuned cell: the values that its trials chose, and their score on held-out rows.
void log_choices(const std::vector<Tuning>& tunings, const SweepPlan& plan) {
  std::vector<Row> rows;
  for (const Tuning& tuning : tunings) {
    if (!tuning.best) continue;
    const SweepSpec& spec = plan.spec();
    const std::string title = spec.title(tuning.cell);
    rows.emplace_back()
        .show("tuned", title.empty() ? spec.name : title)
        .show("chosen",
              point_text(plan.candidates(SweepStage::tuning, tuning.cell)[*tuning.best].point))
        .show("on held-out rows", outcome_text(tuning.goal, tuning.points[*tuning.best].trials));
  }
  if (!rows.empty()) log_table(table_of(rows));
}

// Wall-clock seconds of one run of a cell and stage.
class HostTimes {
 public:
  HostTimes(const SweepFolder& folder, const SweepPlan& plan) : plan_(plan) {
    folder.read_index().for_each([this](const nlohmann::json& line) {
      if (!line.contains("summary")) return;
      Sum& sum = sums_[{line["stage"], line["setup"], line["case"]}];
      sum.seconds += line["summary"]["wall_s"].get<double>();
      ++sum.runs;
    });
  }

  // The time by finished runs, else by a trial of `run`. If trials have used up their time limit,
  // it is the mean of the others. NaN: not known.
  double of(const PlannedRun& run) {
    const SweepSpec& spec = plan_.spec();
    Sum& sum =
        sums_[{to_string(run.stage), spec.setup_of(run.cell).name, spec.case_of(run.cell).name}];
    if (sum.runs > 0) return sum.seconds / static_cast<double>(sum.runs);
    if (seconds_since(start_) > kMostEstimating.count()) return mean();
    const std::vector<Setting> settings = plan_.settings(run);
    ConfiguredRun configured(algorithm_of(settings), settings);
    if (cluster_kind(configured.options().cluster).join) return std::nan("");
    show_status(fmt::format("estimating {}", run_title(plan_, run)));
    const nlohmann::json plan = plan_of_run(configured.spec());
    show_status("");
    sum.seconds = plan["estimate"].value("host_s", std::nan(""));
    sum.runs = 1;
    return sum.seconds;
  }

 private:
  struct Sum {
    double seconds = 0;
    std::size_t runs = 0;
  };

  double mean() const {
    Sum all;
    for (const auto& [cell, sum] : sums_) {
      all.seconds += sum.seconds;
      all.runs += sum.runs;
    }
    return all.runs == 0 ? std::nan("") : all.seconds / static_cast<double>(all.runs);
  }

  const SweepPlan& plan_;
  HostClock::time_point start_ = HostClock::now();
  std::map<std::tuple<std::string, std::string, std::string>, Sum> sums_;
};

double mean_result_bytes(const SweepFolder& folder) {
  constexpr double kGuess = 20e3;
  double bytes = 0;
  std::size_t files = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder.path() + "/runs", failed)) {
    if (entry.path().extension() != ".json" || files == 1000) continue;
    if (const auto state = state_of(entry.path())) {
      bytes += static_cast<double>(state->bytes);
      ++files;
    }
  }
  return files == 0 ? kGuess : bytes / static_cast<double>(files);
}

// Quotes a word for a shell.
std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

struct StagePlan {
  std::size_t runs = 0, done = 0;
  double host_s = 0;  // of the remaining runs; NaN: not known
};

// Carries out the remaining runs and reports the outcome. Exit codes: 0: success. 1: a run failed,
// and each failed run is named. 6: max_wall. 128 + signal: interrupted.
int run_sweep(Sweep& sweep, const SweepPlan& plan, const SweepFolder& folder,
              const SweepOptions& options) {
  const auto start = HostClock::now();
  SweepStatus status(detect_terminal().terminal);
  std::size_t named = 0;
  SweepHooks hooks;
  hooks.on_progress = [&](const SweepProgress& progress) { status.show(progress); };
  hooks.on_failure = [&](const FailedRun& failure) {
    if (++named > kMostNamed) return;
    warn("{} ({}) failed: {}", failure.run.name(), run_title(plan, failure.run), failure.reason);
  };
  hooks.signal = &catch_signals();
  const SweepEnd end = sweep.run(hooks);
  show_status("");
  log_choices(sweep.tunings(), plan);
  for (const Tuning& tuning : sweep.tunings()) {
    const std::string title = plan.spec().title(tuning.cell);
    for (const std::string& text : warnings_of(tuning)) {
      warn("{}: {}", title.empty() ? "the tuning" : title, text);
    }
  }
  log_info("{}: {} runs in {}, {} job{}", plan.spec().name, sweep.runs_done(),
           format_seconds(Seconds(seconds_since(start))), options.jobs,
           options.jobs == 1 ? "" : "s");
  log_info("index: {}", folder.index_file());
  if (end == SweepEnd::aborted) return 128 + received_signal();
  if (end == SweepEnd::time_limit) {
    log(LogLevel::error, "the sweep has reached max_wall; the same command resumes it");
    return static_cast<int>(ExitCode::time_limit);
  }
  if (sweep.failures().empty()) return 0;
  std::string names;
  for (const FailedRun& failure : sweep.failures()) names += "\n  " + failure.run.name();
  throw with_hint(runtime_failure("{} run{} failed:{}", sweep.failures().size(),
                                  sweep.failures().size() == 1 ? "" : "s", names),
                  "a .log file has the messages of each; the same command runs them again");
}

// Prints the plan as a table: runs by setup and case, the finished ones, and an estimate of
// wall-clock time and disk space.
int print_sweep_plan(Sweep& sweep, const SweepPlan& plan, const SweepFolder& folder,
                     const SweepOptions& options) {
  const SweepSpec& spec = plan.spec();
  HostTimes times(folder, plan);
  std::vector<StagePlan> trials(spec.cells.size()), finals(spec.cells.size());
  const auto count = [&](const std::vector<PlannedRun>& runs, std::vector<StagePlan>& cells) {
    const std::vector<bool> done = sweep.find_done(runs, /*remember=*/false);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      StagePlan& cell = cells[runs[i].cell];
      ++cell.runs;
      cell.done += done[i];
      if (!done[i]) cell.host_s += times.of(runs[i]);
    }
  };
  bool tuned = false;
  do {
    trials.assign(spec.cells.size(), {});
    count(plan.trials(), trials);
    tuned = std::ranges::all_of(trials, [](const StagePlan& s) { return s.done == s.runs; });
  } while (tuned && sweep.widen_tunings());
  if (tuned) sweep.conclude_tuning();
  count(tuned ? plan.final_runs() : plan.preview_final_runs(), finals);
  std::vector<Row> rows;
  double host_s = 0;
  std::size_t left = 0;
  for (std::size_t i = 0; i < spec.cells.size(); ++i) {
    const StagePlan &trial = trials[i], &last = finals[i];
    const double cell_s = trial.host_s + last.host_s;
    Row& row = rows.emplace_back();
    if (spec.setups.size() > 1) row.show("setup", spec.setup_of(i).name);
    row.show("case", spec.case_of(i).name);
    for (const auto& [what, stage] : {std::pair("trials", &trial), {"runs", &last}}) {
      if (stage == &trial && plan.trials().empty()) continue;
      row.show(what, fmt::format("{}", stage->runs)).show("done", fmt::format("{}", stage->done));
    }
    row.show("host time left", std::isnan(cell_s) ? "?" : format_seconds(Seconds(cell_s)));
    host_s += cell_s;
    left += trial.runs - trial.done + last.runs - last.done;
  }
  print_text(table_of(rows).format(OutputFormat::text));
  say("{} runs are left: about {} with {} job{}, and about {} of disk space in {}\n", left,
      std::isnan(host_s) ? "?" : format_seconds(Seconds(host_s / options.jobs)), options.jobs,
      options.jobs == 1 ? "" : "s",
      format_bytes(static_cast<double>(left) * mean_result_bytes(folder)), folder.path());
  return 0;
}

// Prints a self-contained command for each run of the next stage.
int print_sweep_commands(Sweep& sweep, const SweepPlan& plan) {
  const std::string here = shell_word(fs::current_path().string());
  const auto print = [&](const std::vector<PlannedRun>& runs) {
    const std::vector<bool> done = sweep.find_done(runs, /*remember=*/true);
    std::size_t printed = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (done[i]) continue;
      std::string line = "env -C " + here;  // paths of the specification may be relative
      for (const std::string& word : sweep.command_of(runs[i], /*resume=*/true)) {
        line += " " + shell_word(word);
      }
      fmt::print("{}\n", line);
      ++printed;
    }
    return printed;
  };
  std::size_t trials = print(plan.trials());
  while (trials == 0 && sweep.widen_tunings()) trials = print(plan.trials());
  if (trials > 0) {
    log_info("these are tuning trials; when they are done, the same command prints what is next");
    return 0;
  }
  sweep.conclude_tuning();
  sweep.write_tunings();
  print(plan.final_runs());
  return 0;
}

class SweepCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "sweep",
        .summary = "run all points of a specification; the same command resumes it",
        .examples = {"hetsgd sweep a6.toml --dry-run", "hetsgd sweep a6.toml -o runs --jobs 4",
                     "hetsgd sweep a6.toml -o /shared/runs --shard 3/16   # one of 16 processes",
                     "hetsgd sweep a6.toml --print-commands | parallel -j 4",
                     "hetsgd sweep --schema > sweep.schema.json"},
        .operands = "[SPEC]"};
  }

  void declare(OptionSet& set) override {
    set.group("Running");
    set.add("output", folder_,
            "Folder of the results. Several sweeps may share a folder; runs that are equal are "
            "then run once.");
    set.add("jobs", jobs_,
            "Number of simulated runs at the same time, which share the cores. Runs in real time "
            "always run alone. auto: as many as cores.")
        .range(1, kMostHostThreads);
    set.add("retry", options_.retry, "How many times a failed run is repeated.").range(0, 1000);
    set.add("fail_fast", options_.fail_fast,
            "End the sweep at the first failed run. Without this flag the other runs go on.");
    set.add("max_wall", max_wall_,
            "Wall-clock time after which the sweep stops. The same command resumes it later. auto: "
            "the limit of the specification, if it has one.")
        .unit("s")
        .above(0);
    set.add("shard", shard_,
            "Share of this process in a job array: I/N, with I from 0 to N-1. It runs every N-th "
            "final run, and all processes share the tuning trials.");
    set.add("extend", extend_,
            "Replace the specification of a sweep with the same name in this folder. Runs that "
            "both specifications have are kept.");
    set.add("yes", yes_, "Allow more than a million runs.");
    set.add("redact", options_.redact, "Leave host names and paths out of the results.");
    set.add("quiet", quiet_, "Print no progress and no summary.");
    set.group("Instead of running");
    set.add("dry_run", dry_run_,
            "Print the plan: runs by setup and case, how many are done, and estimates of "
            "wall-clock time and disk space.");
    set.add("print_commands", print_commands_,
            "Print a command for each remaining run, for GNU parallel or any scheduler. A command "
            "runs in every folder. If there is a tuning, the first call prints its trials, and a "
            "later call the final runs.");
    set.add("schema", schema_, "Print the JSON Schema (draft 7) of specifications.");
  }

  std::string about_unknown(const std::string& flag) const override {
    return flag == "--keep-going" ? "a sweep goes on after failed runs unless --fail-fast is given"
                                  : "";
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (schema_) {
      fmt::print("{}", sweep_schema());
      return 0;
    }
    if (operands.empty()) refuse("sweep", "no operand", "SPEC or --schema");
    if (launched()) {
      refuse("sweep", "a launcher (mpirun, srun) that started it", "a start without launcher",
             "launch = \"mpirun -n {ranks}\" in the specification starts its runs; --shard I/N "
             "divides them");
    }
    LogOptions log = detect_terminal();
    log.quiet = quiet_;
    start_log(log);
    if (const auto variables = variables_of_options(); !variables.empty()) {
      warn("{}: no effect on the runs of a sweep; set options in the specification",
           fmt::join(variables, ", "));
    }
    const SweepSpec spec = read_sweep_spec(operands.front());
    resolve(spec);
    const SweepFolder folder(folder_, spec.name);
    folder.check(spec, extend_);
    SweepPlan plan(spec, yes_);
    Sweep sweep(plan, folder, options_);
    if (dry_run_) return print_sweep_plan(sweep, plan, folder, options_);
    folder.open(spec);
    return print_commands_ ? print_sweep_commands(sweep, plan)
                           : run_sweep(sweep, plan, folder, options_);
  }

 private:
  void resolve(const SweepSpec& spec) {
    options_.jobs = jobs_.value_or(options_.cores);
    options_.max_wall = max_wall_ ? max_wall_ : spec.max_wall;
    if (shard_.empty()) return;
    const auto parts = split(shard_, '/');
    if (parts.size() != 2) refuse("--shard", quote(shard_), "I/N such as 0/4");
    options_.shards = static_cast<std::size_t>(parse_integer("--shard", parts[1], 1, 1'000'000));
    options_.shard = static_cast<std::size_t>(
        parse_integer("--shard", parts[0], 0, static_cast<std::int64_t>(options_.shards) - 1));
  }

  SweepOptions options_;
  std::string folder_ = "runs";
  std::optional<int> jobs_;
  std::optional<Seconds> max_wall_;
  std::string shard_;
  bool extend_ = false, yes_ = false, quiet_ = false;
  bool dry_run_ = false, print_commands_ = false, schema_ = false;
};

}  // namespace

const bool sweep_registered = register_command<SweepCommand>(CommandGroup::run, 4);

}  // namespace hetsgd
