// The result file: one run's record as JSON (schema.json; README, "Result format").
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
// What depends on the host or on its load stands in `environment`, `wall`, `started_at` and
// `finished_at` alone; on a virtual-time cluster all the rest is a function of the options and the
// seed, but for workers[].waited_for, which only a run with --trace has. Numbers that are not
// finite become null, with the reason beside them: {"test_loss": null, "test_loss_reason": "nan"}.
// Names of files and other texts from outside that are not UTF-8 become "bytes:data/caf%E9.txt"
// (core/bytes.hpp), in `config` and `args` so that they read back.
nlohmann::json result_json(const Record& record, const ResultOptions& options);

// The document as text: one line per top-level key and per element of the long lists (curve,
// events, workers ...), so that files can be compared line by line. Ends with a newline.
std::string result_text(const nlohmann::json& result);

// Replaces each number in `value` that is not finite by null, as described above; in lists null
// stands in its place and the reason beside the list: {"norm": [1.0, null], "norm_reason": "inf"}.
void explain_nonfinite(nlohmann::json& value);

// Replaces each text in `value` that is not UTF-8, keys too, by its json_text (core/bytes.hpp).
void escape_bytes(nlohmann::json& value);

// Drops the folders of all paths in all texts of `value`: "--train=/data/a.txt" becomes
// "--train=a.txt".
void redact_paths(nlohmann::json& value);

}  // namespace hetsgd
