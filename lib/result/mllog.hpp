// --mllog: a run as the log of an MLPerf submission, for the tools that read those.
// Source: mlcommons/logging (README; mllog/constants.py has the keys): lines
//
//   :::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME",
//             "key": "seed", "value": 1, "metadata": {}}
//
//   submission_benchmark .. opt_base_learning_rate   what runs
//   init_start, init_stop, run_start                 the first touch of the training data: what
//                                                    MLPerf does before it, hetsgd does not
//   eval_start, eval_stop, eval_accuracy             per evaluation, the initial one too
//   block_start, block_stop                          the training between two evaluations
//   run_stop                                         the last evaluation's end, metadata.status
//                                                    success (all targets, or the whole budget
//                                                    where there is none) or aborted
//
// time_ms is the host's Unix time, so that a real run's eval_accuracy lies mlperf_s (RunClock)
// after run_start. In sim it is the host's time of the first touch plus simulated time, in which
// loading and measuring take none: differences are those of the training clock.
#pragma once

#include <string>

#include "training/record.hpp"

namespace hetsgd {

// The whole log of a run that has ended, in order of time. global_batch_size is the samples per
// model update over the run (one worker's batch where replicas or a server take every gradient
// alone); eval_accuracy the metric that says most about the data, whose name stands in its metadata.
std::string mllog_text(const Record& record);

}  // namespace hetsgd
