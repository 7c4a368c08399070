#include "train_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "result/output.hpp"
#include "result/result.hpp"
#include "result/table.hpp"
#include "result/trace.hpp"
#include "result/validate.hpp"
#include "signals.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// Keeps the result file up to date: after every evaluation, but not more often than twice a second
// (a killed run loses at most that), and at once when the run is interrupted: who sends a signal may
// kill a second later. So only the result of a run that has ended by itself waits for the disk. What
// goes wrong on the way is a warning, since a later write may work; at the end it is an error. To a
// stream goes only the last one.
class ResultWriter {
 public:
  ResultWriter(const std::string& path, const ResultOptions& options)
      : path_(path), options_(options) {}

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

  // Throws what the last write threw.
  void check() const {
    if (failure_) throw *failure_;
  }

 private:
  std::string path_;
  ResultOptions options_;
  std::chrono::steady_clock::time_point next_{};
  bool warned_ = false;
  std::optional<Error> failure_;
};

// The first key in which two configurations differ; "": none.
std::string difference(const json& a, const json& b) {
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || b[key] != value) return key;
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) return key;
  }
  return "";
}

// Where this rank's trace goes.
std::string trace_file(const TrainOptions& options) {
  return hetsgd::trace_file(options.trace, options.cluster == "mpi" ? mpi_rank().rank : 0);
}

// True if --resume finds the work done. Errors: usage (the result of another run).
bool is_done(const TrainOptions& options, json config) {
  const std::string& path = options.output;
  if (!options.resume || options.overwrite || path.empty() || is_stream(path)) return false;
  if (!std::filesystem::is_regular_file(path)) return false;
  json earlier = read_result(path);
  if (options.redact) {  // as the result will be
    redact_paths(earlier["config"]);
    redact_paths(config);
  }
  const std::string key = difference(earlier["config"], config);
  if (!key.empty()) {
    throw with_hint(
        usage_error("--resume: {} holds a run of another configuration: {} differs", path, key),
        "--overwrite replaces it");
  }
  const std::string status = earlier["status"];
  const bool done = status == "completed" || status == "target_reached" || status == "diverged";
  note("{}: {}", path,
       done ? "has this run's result, nothing to do"
            : "holds the same run with status " + status + ", running it again");
  return done;
}

bool target_missed(const Record& record) {
  const json targets = result_json(record, {})["time_to_accuracy"];
  return std::any_of(targets.begin(), targets.end(),
                     [](const json& target) { return target["status"] != "reached"; });
}

std::string time_text(const json& value) {
  return value.is_null() ? "-" : format_seconds(Seconds(value.get<double>()));
}

// What the run came to, for the person who waited for it.
void print_summary(const Record& record, const std::string& output) {
  const json result = result_json(record, {});
  const json& summary = result["summary"];
  if (!result["time_to_accuracy"].empty()) {
    Table table({"target", "time", "smoothed", "samples", "updates"});
    for (const json& target : result["time_to_accuracy"]) {
      const auto shown = [&](const char* key) {
        return target[key].is_null() ? std::string("-") : target[key].dump();
      };
      table.add({target["target"], time_text(target["time_s"]),
                 time_text(target["smoothed_time_s"]), shown("samples_count"), shown("updates")});
    }
    std::string text = table.format(TableFormat::text);
    text.pop_back();
    note("{}", text);
  }
  std::string metrics;
  for (const auto& [name, value] : summary["final"].items()) {
    if (value.is_number()) metrics += fmt::format("  {} {:.4f}", name, value.get<double>());
  }
  note("{}{} after {:.4g} epochs, {} of {} time ({} of host time)",
       result["status"].get<std::string>(), metrics, summary["epoch_num"].get<double>(),
       time_text(summary["elapsed_s"]), record.virtual_time ? "simulated" : "training",
       time_text(result["wall"]["total_s"]));
  if (output.empty()) {
    note("no result was kept: name a file with -o");
  } else if (output != "-") {
    note("result: {}", output);
  }
}

void note_end(const Record& record, const TrainOptions& options) {
  if (speaks(options)) return print_summary(record, options.output);
  note("{}{}", to_string(record.status),
       record.status_reason.empty() ? "" : ": " + record.status_reason);
}

// On a rank that does not speak nobody asks for it.
int exit_code(const TrainOptions& options, const Record& record) {
  if (record.status == Status::aborted) return 128 + record.signal;
  if (record.status == Status::time_limit) return static_cast<int>(ExitCode::time_limit);
  if (!speaks(options)) return 0;
  if (record.status == Status::diverged) warn("the run diverged: {}", record.status_reason);
  if (options.require_target && target_missed(record)) {
    talk(TalkLevel::error, "a target was missed (--require-target)");
    return static_cast<int>(ExitCode::target_missed);
  }
  return static_cast<int>(ExitCode::ok);
}

}  // namespace

int run_training(TrainOptions& options, const OptionSet& set, std::shared_ptr<Algorithm> algorithm,
                 const AlgorithmInfo& info, const ResultOptions& result) {
  const bool bar = detect_terminal().terminal;
  if (bar && set.find("progress_every")->source == OptionSource::default_value) {
    options.progress_every = Seconds(0.25);
  }
  std::optional<Training> prepared;
  const bool done = together(options, [&] {
                      start_talking_as(options);
                      if (!options.trace.empty()) check_writable(trace_file(options), "the trace");
                      Training& training =
                          prepared.emplace(options, set, std::move(algorithm), info);
                      if (!speaks(options)) return 0.0;
                      return is_done(options, training.record().config) ? 1.0 : 0.0;
                    }) != 0.0;
  if (done) return 0;
  Training& training = *prepared;
  together(options, [&] {
    training.load();
    return 0.0;
  });
  check_data(options, training.record());

  ResultWriter writer(options.output, result);
  TrainHooks hooks;
  if (speaks(options)) {
    hooks.on_record = [&](const Record& record) { writer.write(record); };
    hooks.on_progress = [&](const Progress& progress) {
      show_status(progress_text(progress, bar));
    };
  }
  hooks.signal = &catch_signals();
  Trace trace;
  if (!options.trace.empty()) hooks.trace = &trace;
  const Record& record = training.run(hooks);

  return static_cast<int>(together(options, [&] {
    show_status("");
    if (hooks.trace != nullptr) write_text(trace_file(options), trace_json(trace).dump() + "\n");
    if (speaks(options)) {
      for (const std::string& warning : record.warnings) warn("{}", warning);
    }
    if (record.status == Status::failed) std::rethrow_exception(training.failure());
    note_end(record, options);
    writer.check();
    return static_cast<double>(exit_code(options, record));
  }));
}

}  // namespace hetsgd
