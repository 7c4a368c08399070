#include "train_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "experiment/run.hpp"
#include "experiment/tuning.hpp"
#include "model/metric.hpp"
#include "printer.hpp"
#include "ranks.hpp"
#include "result/summary.hpp"
#include "result/validate.hpp"
#include "signals.hpp"
#include "training/plan.hpp"
#include "training/plugins.hpp"
#include "training/simulation/estimate.hpp"
#include "training/training.hpp"

namespace hetsgd {
namespace {

// Whether a flag excludes the option `key` of a configuration. The flag is its rival, or has a
// value with which the option has no effect.
bool flag_excludes(const OptionSet& set, const std::string& key) {
  const auto is_flag = [&](const std::string& name) {
    return set.find(name)->source == OptionSource::flag;
  };
  const Option& option = *set.find(key);
  if (!option.excludes.empty() && is_flag(option.excludes)) return true;
  const OptionNeed* const need = set.missing_need(option);
  return need != nullptr && (is_flag(need->option) || flag_excludes(set, need->option));
}

// Loads the files of the option "plugin".
void load_named_plugins(const OptionSet& set) {
  const Option& option = *set.find("plugin");
  for (const nlohmann::json& path : option.to_json()) {
    load_plugin({bytes_of_json(path.get<std::string>()), option.place}, build_stamp());
  }
}

bool is_option_of(const std::vector<ForeignOption>& all, const std::string& owner,
                  const std::string& key) {
  return std::ranges::any_of(all, [&](const ForeignOption& foreign) {
    return foreign.owner == owner && foreign.option.name == key;
  });
}

// The reason why only the algorithm `owner` has an option, after a colon.
std::string why_alone(const std::string& owner) {
  const auto& all = algorithms();
  const auto found =
      std::ranges::find(all, owner, [](const RegisteredAlgorithm& each) { return each.info.name; });
  if (found == all.end() || found->info.one_hidden_layer_only.empty()) return "";
  return fmt::format(": {} {}", owner, found->info.one_hidden_layer_only);
}

}  // namespace

void TrainSession::choose(const std::string& algorithm, const std::string& model) {
  const RegisteredAlgorithm& registered = find_algorithm(algorithm);
  info_ = registered.info;
  algorithm_ = registered.make();
  options_.algorithm = algorithm;
  options_.choose_model(model);
}

void SessionCommand::look_ahead(const std::vector<std::string>& arguments) {
  std::string algorithm = session_.options().algorithm, model = session_.options().model;
  std::vector<std::string> plugins;
  OptionSet first;
  first.add("plugin", plugins, "");
  first.add("algorithm", algorithm, "");
  first.add("model", model, "");
  read_first(first, arguments);
  session_.choose(algorithm, model);
}

void TrainSession::declare(OptionSet& set) {
  options_.declare(set);
  set.group(fmt::format("Options of {}", info_.name));
  declare_options(*algorithm_, info_, set);
  set.group("Tuning");
  set.add("tuned", tuned_,
          "Tuning file of `hetsgd tune` or `hetsgd sweep` from which the learning rate is taken.")
      .reads_file()
      .not_in_config();
  set.group("Instead of running");
  set.add("print_config", print_config_,
          "Print every option with its value and where the value came from.")
      .not_in_config();
  set.add("dry_run", dry_run_,
          "Load the data and print the plan as JSON, with estimates of memory and time. Times come "
          "from a trial of at most two mega-batches and 10 s: train_s on the training clock with "
          "messages and stragglers, host_s on the wall clock.")
      .not_in_config();
}

std::string TrainSession::about_unknown(const std::string& flag) const {
  for (const auto& [all, chosen] : {std::pair(options_of_all_algorithms(), info_.name),
                                    std::pair(options_of_all_models(), options_.model)}) {
    const std::string owners = owners_of(all, flag);
    if (!owners.empty()) {
      return fmt::format("{} is an option of {}, not of {}{}", flag, owners, chosen,
                         why_alone(owners));
    }
  }
  return "";
}

void TrainSession::read_config(OptionSet& set, const nlohmann::json& config,
                               const std::string& path) {
  const std::string algorithm =  // the configuration's algorithm
      config.contains("algorithm") && config["algorithm"].is_string() ? config["algorithm"] : "";
  const std::vector<ForeignOption> of_algorithms = options_of_all_algorithms(),
                                   of_models = options_of_all_models();
  std::vector<std::string> foreign, of_other_models, excluded;
  for (const auto& [key, value] : config.items()) {
    const bool long_key = key.size() > 60;
    const std::string place = fmt::format("{}: {}", path, long_key ? quote(key) : key);
    if (const Option* option = set.find(key)) {
      if (flag_excludes(set, key)) {
        if (option->to_json() != value) excluded.push_back(key);
        continue;
      }
      set.set_json(key, value, OptionSource::config_file, place);
      continue;
    }
    if (algorithm != info_.name && is_option_of(of_algorithms, algorithm, key)) {
      foreign.push_back(key);
      continue;
    }
    if (!owners_of(of_models, key).empty()) {
      of_other_models.push_back(key);
      continue;
    }
    const std::string hint = about_unknown(key);
    if (hint.empty()) throw unknown_key(set, key, place);
    throw with_hint(usage_error("{}: unknown option", place), hint);
  }
  if (!foreign.empty()) {
    left_out_.push_back(fmt::format("{}: ignored options of {}, which {} does not have: {}", path,
                                    algorithm, info_.name, fmt::join(foreign, ", ")));
  }
  if (!of_other_models.empty()) {
    left_out_.push_back(fmt::format("{}: ignored options, which the model {} does not have: {}",
                                    path, options_.model, fmt::join(of_other_models, ", ")));
  }
  if (!excluded.empty()) {
    left_out_.push_back(fmt::format("{}: ignored options, which flags exclude: {}", path,
                                    fmt::join(excluded, ", ")));
  }
}

void load_plugins(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  OptionSet first;
  first.add("plugin", files, "");
  scan_arguments(first, arguments);
  first.read_environment();
  load_named_plugins(first);
}

void load_plugins_again(const OptionSet& first, const nlohmann::json& result,
                        const std::string& path) {
  const bool others = first.find("plugin")->source == OptionSource::flag;
  if (others) load_named_plugins(first);
  for (const nlohmann::json& plugin : result.value("plugins", nlohmann::json::array())) {
    const std::string hash = plugin["file_hash"];
    if (!others) {
      load_plugin({bytes_of_json(plugin["path"].get<std::string>()), path + ": plugins", hash},
                  build_stamp());
    } else if (std::ranges::find(loaded_plugins(), hash, &Plugin::hash_text) ==
               loaded_plugins().end()) {
      warn("{}: the run used the plugin {} with {}, which --plugin does not name", path,
           plugin["name"].get<std::string>(), hash);
    }
  }
}

nlohmann::json read_first(OptionSet& first, const std::string& config_path,
                          const std::vector<std::string>& arguments) {
  scan_arguments(first, arguments);
  first.read_environment();
  nlohmann::json config = nlohmann::json::object();
  if (!config_path.empty()) config = load_config(config_path);
  for (const Option& option : std::vector<Option>(first.options())) {
    if (!config.contains(option.name)) continue;
    first.set_json(option.name, config[option.name], OptionSource::config_file,
                   config_path + ": " + option.name);
  }
  load_named_plugins(first);
  return config;
}

void read_environment(OptionSet& set) {
  const auto others = variables_of_no_option();
  std::vector<std::string> known(others.begin(), others.end());
  for (const auto& all : {options_of_all_algorithms(), options_of_all_models()}) {
    for (const ForeignOption& foreign : all) known.push_back(foreign.option.environment());
  }
  for (const std::string& name : set.read_environment()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::vector<std::string> candidates = known;
    for (const Option& option : set.options()) candidates.push_back(option.environment());
    const auto best = nearest(name, candidates);
    warn("{}: no option has this name{}", name,
         best ? fmt::format("; did you mean {}?", *best) : "");
  }
}

void TrainSession::take_tuned(OptionSet& set) {
  if (tuned_.empty()) return;
  const Option& tuned = *set.find("tuned");
  const Option& rate = *set.find("learning_rate");
  if (rate.source != OptionSource::default_value && rate.source >= tuned.source) {
    refuse(rate.place, tuned.place + " as well, which also sets the learning rate",
           "one of the two");
  }
  nlohmann::json config = Training(spec(set)).record().config;
  if (options_.redact) redact_paths(config);  // as in the results of trials
  const nlohmann::json chosen = read_tuned(tuned_, info_.name);
  tuning_ = note_of_run(chosen["note"], chosen["config"], config);
  set.set_json("learning_rate", tuning_["learning_rate"], tuned.source,
               fmt::format("{} {}", tuned.place, tuned_));
  if (!tuning_["differs"].empty()) {
    warn("{}: the learning rate was tuned under other options: {}", tuned_,
         fmt::join(tuning_["differs"].get<std::vector<std::string>>(), ", "));
  }
}

int TrainSession::print_plan(const OptionSet& set) {
  const nlohmann::json plan = plan_of_run(spec(set));
  if (options_.processes().is_root()) print_json(plan);
  return 0;
}

int TrainSession::run(OptionSet& set, const std::vector<std::string>& arguments) {
  if (options_.processes().is_root() && !options_.quiet) {
    for (const std::string& text : left_out_) log_info("{}", text);
  }
  settle_learning_rate(options_, info_, set);
  take_tuned(set);
  if (print_config_) {
    if (options_.processes().is_root()) print_text(set.describe());
    return 0;
  }
  const std::string alone = lone_worker(options_, info_);
  if (!alone.empty() && options_.processes().is_root()) warn("{}", alone);
  if (dry_run_) return print_plan(set);
  return run_training(spec(set), {arguments, options_.redact, tuning_});
}

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
