#include "experiment/run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"
#include "core/output_file.hpp"
#include "experiment/result_file.hpp"
#include "result/event_file.hpp"
#include "result/mllog.hpp"
#include "result/output.hpp"
#include "result/trace.hpp"
#include "training/trace.hpp"

namespace hetsgd {
namespace {

// Its learning rate is that of a batch of b_max.
EventFile event_file_of(const TrainOptions& options) {
  return EventFile(event_file(options.tensorboard), [&options](double epoch) {
    return options.learning_rate * options.schedule.factor(epoch);
  });
}

// What a run leaves beside its result.
void write_beside(const TrainOptions& options, const Trace& trace, const Record& record) {
  if (!options.trace.empty()) write_text(options.trace, trace_json(trace).dump() + "\n");
  if (!options.mllog.empty()) write_text(options.mllog, mllog_text(record));
}

// Of a run that has not failed.
int exit_code_of(const TrainOptions& options, const Outcome& outcome) {
  const Record& record = outcome.record;
  if (record.status == Status::aborted) return 128 + record.signal;
  if (record.status == Status::time_limit) return static_cast<int>(ExitCode::time_limit);
  // Elsewhere the record is not whole.
  const bool missed = options.require_target && options.processes().is_root() &&
                      !outcome.summary.reached_all_targets();
  return static_cast<int>(missed ? ExitCode::target_missed : ExitCode::ok);
}

// Collective: the processes have read the same data. Errors: usage.
void check_data(ProcessGroup& processes, const Record& record) {
  const auto fact = [](const char* option, const Dataset& data) {
    return Fact{fmt::format("the content of {}", option),
                fmt::format("xxh3:{:016x}", data.content_hash)};
  };
  processes.compare({fact("--train", *record.train), fact("--test", *record.test)});
}

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
    if (processes.is_root() && !options.tensorboard.empty()) events.emplace(event_file_of(options));
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
  Trace trace;
  hooks.trace = options.trace.empty() ? nullptr : &trace;
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
