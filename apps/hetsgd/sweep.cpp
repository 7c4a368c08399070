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
        .summary = "run all points of a specification, and go on where it was cut off",
        .examples = {"hetsgd sweep a6.toml --dry-run", "hetsgd sweep a6.toml -o runs --jobs 4",
                     "hetsgd sweep a6.toml -o /shared/runs --shard 3/16   # one of 16 processes",
                     "hetsgd sweep a6.toml --print-commands | parallel -j 4",
                     "hetsgd sweep --schema > sweep.schema.json"},
        .operands = "[SPEC]"};
  }

  void declare(OptionSet& set) override {
    set.group("Running");
    set.add("output", folder_,
            "folder of the results; several sweeps may share one, and with it equal runs");
    set.add("jobs", jobs_,
            "simulated runs side by side, which share the cores (those in real time go one at a "
            "time); auto: as many as cores")
        .range(1, kMostHostThreads);
    set.add("retry", options_.retry, "how often a run that failed is run again").range(0, 1000);
    set.add("fail_fast", options_.fail_fast,
            "the first run that fails ends the sweep; without, the others go on");
    set.add("max_wall", max_wall_,
            "host time after which the sweep stops, to go on another time; auto: that of the "
            "specification")
        .unit("s")
        .above(0);
    set.add("shard", shard_,
            "I/N, I from 0: this process runs every N-th final run, and helps with the trials; for "
            "job arrays");
    set.add("extend", extend_,
            "the folder has a sweep of this name with another specification: go on with this one");
    set.add("yes", yes_, "run more than a million runs");
    set.add("redact", options_.redact, "leave host names and paths out of the results");
    set.add("quiet", quiet_, "no progress, no summary");
    set.group("Instead of running");
    set.add("dry_run", dry_run_,
            "print the plan: runs by setup and case, what is done, host time and disk");
    set.add("print_commands", print_commands_,
            "print a command for each run that is left, for GNU parallel or any scheduler; with a "
            "tuning first those of its trials, and those of the final runs when called again");
    set.add("schema", schema_, "print the JSON Schema (draft 7) of specifications");
  }

  std::string about_unknown(const std::string& flag) const override {
    return flag == "--keep-going" ? "it is what happens without --fail-fast" : "";
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (schema_) {
      fmt::print("{}", sweep_schema());
      return 0;
    }
    if (operands.empty()) throw usage_error("sweep: expected SPEC or --schema");
    if (launched()) {
      throw with_hint(usage_error("sweep: found a launcher (mpirun, srun) around it"),
                      "start it alone; launch = \"mpirun -n {ranks}\" in the specification starts "
                      "its runs, --shard I/N divides them");
    }
    LogOptions log = detect_terminal();
    log.quiet = quiet_;
    start_log(log);
    if (const auto variables = variables_of_options(); !variables.empty()) {
      warn("{}: no effect on the runs of a sweep, whose options stand in its specification",
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
    if (parts.size() != 2) {
      throw usage_error("--shard: found {}, expected I/N such as 0/4", quote(shard_));
    }
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
