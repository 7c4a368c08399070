#include "experiment/run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cluster/trace/trace.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "result/formats.hpp"
#include "result/validate.hpp"
#include "training/plan.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The event file of --tensorboard. Its learning rate is that of a batch of b_max.
EventFile event_file_of(const TrainOptions& options, const Record& record) {
  return EventFile(event_file(options.tensorboard), [&](double epoch) {
    return options.learning_rate * schedule_of(options, record.train->totals().rows).factor(epoch);
  });
}

// Writes the files of --trace, --record-timeline and --mllog.
void write_beside(const TrainOptions& options, const Trace& trace, const Record& record) {
  if (!options.trace.empty()) write_text(options.trace, trace_json(trace).dump() + "\n");
  if (!options.record_timeline.empty()) write_timeline(options.record_timeline, trace, record);
  if (!options.mllog.empty()) write_text(options.mllog, mllog_text(record));
}

// With --record-timeline alone the recorded calls have bounded memory, and what exceeds it goes to
// a file beside the timeline file. With --trace they stay in memory, since its text is made there.
CallMemoryOptions memory_of_trace(const TrainOptions& options) {
  if (options.record_timeline.empty() || !options.trace.empty()) return {};
  const std::filesystem::path target =
      is_stream(options.record_timeline)
          ? std::filesystem::temp_directory_path() / "record"
          : std::filesystem::path(follow_links(options.record_timeline));
  const std::filesystem::path folder = target.parent_path();
  return {.folder = folder.empty() ? "." : folder.string()};
}

// The exit code of a run that has not failed.
int exit_code_of(const TrainOptions& options, const Outcome& outcome) {
  const Record& record = outcome.record;
  if (record.status == Status::aborted) return 128 + record.signal;
  if (record.status == Status::time_limit) return static_cast<int>(ExitCode::time_limit);
  if (record.status == Status::diverged) return static_cast<int>(ExitCode::diverged);
  // Only the root's record is complete.
  const bool missed = options.require_target && options.processes().is_root() &&
                      !outcome.summary.reached_all_targets();
  return static_cast<int>(missed ? ExitCode::target_missed : ExitCode::ok);
}

// Collective. Throws Error(usage) unless the processes have read the same data.
void check_data(ProcessGroup& processes, const Record& record) {
  const auto fact = [](const char* option, const Dataset& data) {
    return Fact{fmt::format("the content of {}", option),
                fmt::format("xxh3:{:016x}", data.content_hash)};
  };
  processes.compare({fact("--train", *record.train), fact("--test", *record.test)});
}

// The file of one run's result while the run goes on. It is updated after every evaluation, but at
// most twice a second, so a killed run loses at most half a second. When the run is interrupted it
// is written at once, because the sender of a signal may kill the process a second later. So only
// the result of a run that has ended by itself waits for the disk. Errors during the run are
// warnings, since a later write may work; at the end they are errors. A stream gets only the last
// write. Not thread-safe.
class ResultFile {
 public:
  ResultFile(const TrainOptions& options, const ResultOptions& result)
      : path_(options.output), resume_(options.resume && !options.overwrite), options_(result) {}

  // Whether --resume finds the result of a run of `config` that has ended by itself. Throws
  // Error(usage) if the file has a run of another configuration, Error(data) if it is no result.
  bool has_result_of(json config) const {
    if (!resume_ || path_.empty() || is_stream(path_)) return false;
    if (!std::filesystem::is_regular_file(path_)) return false;
    json earlier = read_result(path_);
    if (options_.redact) {  // the new result will be redacted, too
      redact_paths(earlier["config"]);
      redact_paths(config);
    }
    if (const std::string key = first_difference_in(earlier["config"], config); !key.empty()) {
      throw with_hint(
          usage_error("--resume: {} holds a run of another configuration: {} differs", path_, key),
          "--overwrite replaces it");
    }
    const std::string status = earlier["status"];
    const bool done = is_done(status);
    log_info("{}: {}", path_,
             done ? "has this run's result, nothing to do"
                  : "holds the same run with status " + status + ", running it again");
    return done;
  }

  void write(const Record& record) {
    const bool running = record.status == Status::running;
    const bool interrupted =
        record.status == Status::aborted || record.status == Status::time_limit;
    const auto now = std::chrono::steady_clock::now();
    if (path_.empty() || (running && (now < next_ || is_stream(path_)))) return;
    failure_.reset();
    try {
      write_result(path_, result_json(record, options_), !running && !interrupted);
    } catch (const Error& error) {
      if (!warned_ && running) warn("{}; the run goes on", error.what());
      warned_ = true;
      failure_ = error;
    }
    next_ = now + std::chrono::milliseconds(500);
  }

  // Throws the error of the last write, if there was one.
  void check() const {
    if (failure_) throw Error(*failure_);
  }

 private:
  std::string path_;
  bool resume_;
  ResultOptions options_;
  std::chrono::steady_clock::time_point next_{};
  bool warned_ = false;
  std::optional<Error> failure_;
};

}  // namespace

Outcome run_one(const RunSpec& spec, const ResultOptions& result, TrainHooks hooks,
                DataCache* cache) {
  const TrainOptions& options = spec.options;
  Outcome outcome;
  ResultFile file(options, result);
  std::optional<Training> training;
  ProcessGroup& processes = options.processes();
  outcome.already_done = processes.agree([&] {
    training.emplace(spec);
    return processes.is_root() && file.has_result_of(training->record().config);
  });
  if (outcome.already_done) return outcome;
  std::optional<EventFile> events;
  processes.agree([&] {
    if (processes.is_root() && !options.tensorboard.empty()) {
      events.emplace(event_file_of(options, training->record()));
    }
    training->load(cache);
  });
  check_data(processes, training->record());

  if (processes.is_root()) {
    hooks.on_record = [&file, &events, then = hooks.on_record](const Record& record) {
      file.write(record);
      if (events) events->write(record);
      if (then) then(record);
    };
  } else {
    hooks.on_record = nullptr;
    hooks.on_progress = nullptr;
  }
  const bool timeline = !options.record_timeline.empty();
  Trace trace(timeline ? TraceDetail::causes : TraceDetail::calls, memory_of_trace(options));
  hooks.trace = timeline || !options.trace.empty() ? &trace : nullptr;
  outcome.record = training->run(hooks);
  outcome.summary = summarise(outcome.record);
  try {
    outcome.exit_code = processes.agree([&] {
      if (processes.is_root()) write_beside(options, trace, outcome.record);
      if (outcome.record.status == Status::failed) std::rethrow_exception(training->failure());
      file.check();
      if (events) events->check();
      return exit_code_of(options, outcome);
    });
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return outcome;
}

}  // namespace hetsgd
