// A run's record, as `hetsgd replay` and `hetsgd fit` read it.
#pragma once

#include "support/run.hpp"
#include "support/temporary_file.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd::test {

inline Timeline recorded_timeline(const Settings& settings) {
  Trace trace(TraceDetail::causes);
  const Record record = run_training(settings, {.trace = &trace});
  const TemporaryFolder folder;
  write_timeline(folder / "run.jsonl.zst", trace, record);
  return read_timeline(folder / "run.jsonl.zst");
}

}  // namespace hetsgd::test
