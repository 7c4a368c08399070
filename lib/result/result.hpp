// The result file: one run's record as JSON (schema.json; README, "Result format").
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/output.hpp"
#include "training/record.hpp"

namespace hetsgd {

struct ResultOptions {
  std::vector<std::string> args;    // as the run was called, without the program's name
  bool redact = false;              // drop host names, and the folders of all paths
  nlohmann::json tuning = nullptr;  // where the learning rate comes from; null: it was given
};

// The complete document, valid under the schema at every moment of a run (status "running" until it
// ends).
//
// Values that depend on the host or on its load stand in `environment`, `wall`, `started_at` and
// `finished_at` alone; on a virtual-time cluster all the rest is a function of the options and the
// seed, but for workers[].waited_for, which only a run with --trace has. Numbers that are not
// finite become null, with the reason beside them: {"test_loss": null, "test_loss_reason": "nan"}.
// Names of files and other texts from outside that are not UTF-8 become "bytes:data/caf%E9.txt"
// (core/bytes.hpp), in `config` and `args` so that they read back.
nlohmann::json result_json(const Record& record, const ResultOptions& options);

// Whether a result's status says that the run is over, and need not be run again.
bool is_done(const std::string& status);

}  // namespace hetsgd
