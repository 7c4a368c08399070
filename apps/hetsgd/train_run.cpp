#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "experiment/run.hpp"
#include "model/metric.hpp"
#include "printer.hpp"
#include "ranks.hpp"
#include "result/summary.hpp"
#include "signals.hpp"
#include "train_session.hpp"

namespace hetsgd {
namespace {

std::string bar_text(double share) {
  constexpr int kCells = 20;
  const int full = static_cast<int>(share * kCells);
  return fmt::format("[{:=<{}}{:{}}] ", "", full, "", kCells - full);
}

// The text of the most informative metric.
std::string metric_text(const CurvePoint& point) {
  const auto& [metric, value] = point.metrics.front();
  if (metric->higher_is_better()) return fmt::format("  {} {:.4f}", metric->key(), value);
  return fmt::format("  {} {:.4g}", metric->key(), value);
}

// The progress line of a run. `bar`: with a progress bar in front.
std::string progress_text(const Progress& p, bool bar) {
  const double share = p.share_done();
  std::string text = bar ? bar_text(share) : "";
  text += fmt::format("{:.0f}%", 100 * share);
  if (p.measuring_s > 0) text += "  evaluating";
  if (const auto remaining = p.remaining()) {
    text += fmt::format("  ETA {}", format_seconds(*remaining));
  }
  text += fmt::format("  epoch {:.2f}  step {}  samples {}", p.epoch_num, p.updates,
                      format_count(static_cast<double>(p.samples_count)));
  if (p.samples_count > 0) text += fmt::format("  loss {:.4g}", p.train_loss);
  if (p.last) text += metric_text(*p.last);
  if (p.time.count() > 0) {
    text += fmt::format("  {} samples/s", format_count(p.samples_per_s()));
    if (const double each = p.tokens_per_sample; each > 0) {
      text += fmt::format("  {} tokens  {} tokens/s",
                          format_count(each * static_cast<double>(p.samples_count)),
                          format_count(each * p.samples_per_s()));
    }
  }
  if (p.slowest_rank != p.fastest_rank) {
    text += fmt::format("  slowest {} ({}/step)  fastest {} ({}/step)", p.slowest_rank,
                        format_seconds(Seconds(p.slowest_step_s)), p.fastest_rank,
                        format_seconds(Seconds(p.fastest_step_s)));
  }
  return text;
}

std::string time_text(std::optional<double> seconds) {
  return seconds ? format_seconds(Seconds(*seconds)) : "-";
}

void print_targets(const Summary& summary) {
  if (summary.targets.empty()) return;
  Table table({"target", "time", "resolution", "first crossing", "best", "samples", "updates"});
  for (const auto& [target, time] : summary.targets) {
    const auto& held = time.held;
    const auto best = summary.best.find(target.metric);
    table.add({target.text(), held ? time_text(held->time_s) : "missed",
               held ? time_text(time.resolution_s) : "-",
               time.first_crossing ? time_text(time.first_crossing->time_s) : "-",
               best == summary.best.end() ? "-" : fmt::format("{:.4f}", best->second.value),
               held ? fmt::format("{}", held->samples_count) : "-",
               held ? fmt::format("{}", held->updates) : "-"});
  }
  log_table(table);
}

bool has_rows_with_several_labels(const Dataset& data) {
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    if (data.labels(row).size() > 1) return true;
  }
  return false;
}

// The texts of metrics, "  p1 0.7020  test_loss 2.5435". Where no test row has several labels, at
// most one of the k best labels is right, so P@k is at most 1/k: readers would take it for the
// share of rows whose label is among the k best. It is left out.
class MetricsText {
 public:
  explicit MetricsText(const Record& record)
      : all_(!record.test || has_rows_with_several_labels(*record.test)) {}

  std::string operator()(const std::map<std::string, double>& values) const {
    std::string text;
    for (const auto& [name, value] : values) {
      const bool of_k = std::ranges::any_of(metrics(), [&key = name](const Metric* metric) {
        return metric->key() == key && metric->best_labels() > 1;
      });
      if (std::isfinite(value) && (all_ || !of_k)) text += fmt::format("  {} {:.4f}", name, value);
    }
    return text;
  }

 private:
  bool all_;
};

// Prints the outcome of the run, for the user who waited for it.
void print_summary(const Outcome& outcome, const std::string& output) {
  const Record& record = outcome.record;
  const Summary& summary = outcome.summary;
  const MetricsText text_of(record);
  print_targets(summary);
  for (const std::string& remark : remarks_of(record, summary)) log_info("{}", remark);
  if (!summary.constant_guess.empty()) {
    log_info("a constant guess reaches{}", text_of(summary.constant_guess));
  }
  log_info("{}{} after {:.4g} epochs, {} of {} time ({} of wall-clock time)",
           to_string(record.status), text_of(summary.final_metrics), summary.last.epoch_num,
           time_text(summary.elapsed_s), record.virtual_time ? "simulated" : "training",
           time_text(record.phases.total_s));
  if (output.empty()) {
    log_info("the result was not written; -o FILE writes it");
  } else if (output != "-") {
    log_info("result: {}", kept_as(output));
  }
}

// Notes the end of the run: on rank 0 the warnings and remarks for the user, on other ranks a line
// for the log.
void note_end(const Outcome& outcome, const TrainOptions& options) {
  const Record& record = outcome.record;
  if (!options.processes().is_root()) {
    log_info("{}{}", to_string(record.status),
             record.status_reason.empty() ? "" : ": " + record.status_reason);
    return;
  }
  print_summary(outcome, options.output);
  if (outcome.error) return;
  if (record.status == Status::diverged) warn("the run diverged: {}", record.status_reason);
  if (outcome.exit_code == static_cast<int>(ExitCode::target_missed)) {
    log(LogLevel::error, "a target was missed (--require-target)");
  }
}

}  // namespace

int run_training(const RunSpec& spec, const ResultOptions& result) {
  TrainOptions options = spec.options;
  const bool bar = detect_terminal().terminal;
  if (bar && spec.set.find("progress_every")->source == OptionSource::default_value) {
    options.progress_every = Seconds(0.25);
  }
  ProcessGroup& processes = options.processes();
  processes.agree([&] { start_log_as(options); });
  TrainHooks hooks;
  hooks.on_progress = [&](const Progress& progress) { show_status(progress_text(progress, bar)); };
  hooks.signal = &catch_signals();
  hooks.checkpoint_signal = &checkpoint_signals;
  std::size_t said = 0;  // warnings shown so far; early ones are shown before the run
  const auto say = [&](const std::vector<std::string>& warnings) {
    if (said < warnings.size()) show_status("");
    for (; said < warnings.size(); ++said) warn("{}", warnings[said]);
  };
  hooks.on_record = [&](const Record& record) { say(record.warnings); };
  const Outcome outcome =
      run_one({options, spec.set, spec.algorithm, spec.info}, result, std::move(hooks));
  if (outcome.already_done) return 0;
  show_status("");
  if (processes.is_root()) say(warnings_of(outcome.record, outcome.summary));
  if (outcome.record.status != Status::failed) note_end(outcome, options);
  if (outcome.error) std::rethrow_exception(outcome.error);
  return outcome.exit_code;
}

}  // namespace hetsgd
