// One run and its file: loads the data, trains, keeps the result file up to date, and says how it
// ended. `train`, `rerun`, the trials of `tune` and sweeps call it. Nothing here prints except
// warnings and notes (core/logging.hpp).
//
//   resolve options ─> the file has this result already (--resume) ──────────────────> Outcome
//          └─> load data ─> train, writing the file after every evaluation ─> last write ─┘
#pragma once

#include <exception>

#include "result/result.hpp"
#include "result/summary.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

struct Outcome {
  bool already_done = false;  // --resume found the result; the rest is empty
  Record record;
  Summary summary;
  // 0: success. 3: a target was missed under --require-target. 6: --time-limit. 8: the run
  // diverged, whether it has missed a target or not. 128 + signal: interrupted.
  int exit_code = 0;
  // The reason of a failure (record.status is `failed`), or else an error of writing the files of
  // the run.
  std::exception_ptr error;
};

// Runs `spec` and writes its result to options.output, if that names a file, and its trace. The
// content of `result` is written to the file, too. hooks.on_record is called after the file was
// written; hooks.trace is ignored. `cache` shares data with other runs of this process; null: the
// data are read for this run. With several processes, every one of them calls it.
//
// The file is complete at every moment. It is replaced after every evaluation, at most twice a
// second, so a killed process leaves a valid result with status `running`.
//
// Throws Error(usage), Error(data), Error(device) or Error(runtime) before the training begins.
// Later errors are in the outcome.
Outcome run_one(const RunSpec& spec, const ResultOptions& result, TrainHooks hooks,
                DataCache* cache = nullptr);

}  // namespace hetsgd
