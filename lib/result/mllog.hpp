// --mllog writes a run as the log of an MLPerf submission, for tools that read such logs. The
// format is that of mlcommons/logging (README; mllog/constants.py has the keys). It has lines such
// as
//
//   :::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME",
//             "key": "seed", "value": 1, "metadata": {}}
//
//   submission_benchmark .. opt_base_learning_rate   the configuration of the run
//   init_start, init_stop, run_start                 the first reading of the training data: what
//                                                    MLPerf does before it, hetsgd does not
//   eval_start, eval_stop, eval_accuracy             per evaluation, the initial one too
//   block_start, block_stop                          the training between two evaluations
//   run_stop                                         the last evaluation's end, metadata.status
//                                                    success (all targets, or the whole budget
//                                                    where there is none) or aborted
//
// time_ms is the host's Unix time, so in a real run eval_accuracy is mlperf_s (RunClock) after
// run_start. In sim it is the time of the first reading of the data, plus simulated time. Loading
// and measuring take no simulated time, so differences are those of the training clock.
#pragma once

#include <string>

#include "training/record.hpp"

namespace hetsgd {

// The whole log of a run that has ended, in order of time. global_batch_size is the mean number of
// samples per model update (one worker's batch if replicas or a server apply every gradient alone).
// eval_accuracy is the most informative metric for the data; its metadata have the metric's name.
std::string mllog_text(const Record& record);

}  // namespace hetsgd
