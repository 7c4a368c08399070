// hetsgd sweep: many runs by one specification.
#include "experiment/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cluster/process_group.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/worker_pool.hpp"
#include "sweep_run.hpp"

namespace hetsgd {
namespace {

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
