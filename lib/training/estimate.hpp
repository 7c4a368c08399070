// What a run will take, for --dry-run: memory by the algorithm's own account, time by trying.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "algorithm/algorithm.hpp"
#include "core/options.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// {config, estimate} of the run that the options describe. On sim and threads the estimate comes
// from a trial: the same run with all its messages and stragglers, cut to a few iterations and at
// most two mega-batches, with its models measured on part of the test rows; and at most
// kTrialLimit of host time. Its second half is extended to the whole budget (or --max-time). So what
// changes later in the run (a straggler that comes and goes, batch sizes that move, a target that
// ends it) is not foreseen; a run that is no longer than its trial is. With delays that are drawn
// anew in every iteration, train_s is within a factor of 1.5 of a simulated run (estimate_test);
// host_s counts on a host as busy as now. Nothing is written.
// `set` declares the options and the algorithm's own. Errors: those of the run.
nlohmann::json plan_of_run(const TrainOptions& options, const OptionSet& set,
                           const std::shared_ptr<Algorithm>& algorithm, const AlgorithmInfo& info);

}  // namespace hetsgd
