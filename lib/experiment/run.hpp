// One run and its file: loads the data, trains, keeps the result file up to date, and says how it
// ended. `train`, `rerun`, the trials of `tune` and whoever runs many experiments call it; nothing
// here prints but for warnings and notes (core/logging.hpp).
//
//   resolve options ─> the file has this result already (--resume) ──────────────────> Outcome
//          └─> load data ─> train, writing the file after every evaluation ─> last write ─┘
#pragma once

#include <chrono>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "result/result.hpp"
#include "result/summary.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

// The file of one run's result while the run goes on.

// Keeps the file up to date: after every evaluation, but not more often than twice a second (a
// killed run loses at most that), and at once when the run is interrupted: who sends a signal may
// kill a second later. So only the result of a run that has ended by itself waits for the disk. What
// goes wrong on the way is a warning, since a later write may work; at the end it is an error. To a
// stream goes only the last one. Not thread-safe.
class ResultFile {
 public:
  ResultFile(const TrainOptions& options, const ResultOptions& result);

  // Whether --resume finds the result of a run of `config` that has ended by itself. Errors: usage
  // (the file has a run of another configuration), data (it is no result).
  bool has_result_of(nlohmann::json config) const;

  void write(const Record& record);
  // Throws what the last write threw.
  void check() const;

 private:
  std::string path_;
  bool resume_;
  ResultOptions options_;
  std::chrono::steady_clock::time_point next_{};
  bool warned_ = false;
  std::optional<Error> failure_;
};

struct Outcome {
  bool already_done = false;  // --resume found the result; the rest is empty
  Record record;
  Summary summary;
  // 0; 3: a target was missed under --require-target; 6: --time-limit; 128 + signal. A run that
  // diverged is a result like any other: 0.
  int exit_code = 0;
  // The reason of a failure (record.status is `failed`), or else an error of writing its files.
  std::exception_ptr error;
};

// Runs `spec` and writes its result to options.output, if that names a file, and its trace. What
// `result` says stands in the file too. Of `hooks`, on_record is called when the file was written,
// and `trace` is not looked at. `cache`: data to share with other runs of this process; null: read
// them for this run. With several processes every one calls it.
//
// The file is whole at every moment: it is replaced after every evaluation, at most twice a second,
// so that a process that is killed leaves a valid result with status `running`.
//
// Errors: what is wrong before the training begins (usage, data, device, runtime). From there on
// they are the outcome's.
Outcome run_one(const RunSpec& spec, const ResultOptions& result, TrainHooks hooks,
                DataCache* cache = nullptr);

}  // namespace hetsgd
