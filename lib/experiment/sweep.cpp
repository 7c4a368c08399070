#include "experiment/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/spec_settings.hpp"
#include "experiment/sweep_plan.hpp"
#include "result/output.hpp"
#include "result/result.hpp"
#include "result/time_to_accuracy.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void fill_in(std::string& word, const std::string& name, std::optional<int> value) {
  const std::size_t at = word.find(name);
  if (at == std::string::npos) return;
  if (!value) {
    throw usage_error("launch: found {}, but workers is auto, expected a number of workers", name);
  }
  word.replace(at, name.size(), fmt::format("{}", *value));
}

// The first option in which the run of a result differs from the plan; "" if none does. File paths
// are not compared, because files may have moved. An option planned as `auto` is not compared,
// because the result has its number.
std::string first_other_option(const std::vector<Setting>& planned, const json& config) {
  const ConfiguredRun run(algorithm_of(planned), planned);
  for (const Setting& setting : planned) {
    const Option* const option = run.spec().set.find(setting.name);
    if (option == nullptr || !option->in_config || option->files.role == FileRole::read) continue;
    const json value = option->to_json();
    const bool open = value == json(option->absent) || !config.contains(setting.name);
    if (!open && config[setting.name] != value) return setting.name;
  }
  return "";
}

// The result of a trial that has ended, well or badly; null: there is none.
json result_of_trial(const std::string& file) {
  if (!state_of(file)) return nullptr;
  try {
    json result = read_result(file);
    check_fields(
        file, result,
        {"config.validation number", "dataset.train.rows count", "dataset.train.content_hash text",
         "dataset.test.rows count", "dataset.test.content_hash text"});
    return is_done(result["status"]) ? result : json();
  } catch (const Error& error) {  // the run has failed, which is reported elsewhere
    return nullptr;
  }
}

// The options whose best value is the smallest or largest of the numbers that were tried for it.
std::vector<std::string> edges_of(const SearchSpace& space, const std::vector<Candidate>& all,
                                  const Candidate& best) {
  std::vector<std::string> edges;
  for (const SearchAxis& axis : space.axes) {
    if (axis.names.size() != 1 || axis.rows.empty()) continue;  // zipped, or drawn from a range
    const Setting* const chosen = find_setting(best.point, axis.names.front());
    if (chosen == nullptr) continue;
    if (end_of_list(values_tried(all, chosen->name), chosen->value).is_end) {
      edges.push_back(chosen->name);
    }
  }
  return edges;
}

// Says of a tuning what the result of one of its trials has in common with all of them.
void describe(Tuning& tuning, const json& result) {
  tuning.config = result["config"];
  tuning.config.erase("seed");
  for (const TriedPoint& point : tuning.points) {
    for (const auto& [name, value] : point.parameters.items()) tuning.config.erase(name);
  }
  for (const auto& [name, part] : {std::pair("train", "train"), std::pair("validation", "test")}) {
    const json& data = result["dataset"][part];
    tuning.dataset[name] = {{"rows", data["rows"]}, {"content_hash", data["content_hash"]}};
  }
}

// The line of the index for a run that ended with this result.
json index_line(const json& about, const json& result, const std::optional<Goal>& goal,
                const std::string& file) {
  json line = about;
  line["status"] = result.at("status");
  line["file"] = file;
  const json tuning = result.value("tuning", json());
  if (tuning.is_object()) line["tuning"] = tuning.value("file_hash", json());
  const json& summary = result.at("summary");
  json figures = json::object();
  for (const char* const key : {"elapsed_s", "samples_count", "epoch_num", "updates", "final"}) {
    figures[key] = summary.value(key, json());
  }
  figures["wall_s"] = result.at("wall").at("total_s");
  figures["best"] = json::object();
  for (const auto& [metric, best] : summary.at("best").items()) {
    if (best.is_object()) figures["best"][metric] = best.value("value", json());
  }
  if (goal && goal->target) {
    const auto held = time_to(result, *goal->target).held;
    figures["target"] = goal->target->text();
    figures["time_to_target_s"] = held ? json(held->time_s) : json(nullptr);
  }
  line["summary"] = std::move(figures);
  return line;
}

}  // namespace

Sweep::Sweep(SweepPlan& plan, const SweepFolder& folder, SweepOptions options)
    : plan_(plan), folder_(folder), options_(std::move(options)) {}

std::vector<std::string> Sweep::command_of(const PlannedRun& planned, bool resume) const {
  std::vector<Setting> settings = plan_.settings(planned);
  const ConfiguredRun run(algorithm_of(settings), settings);
  const TrainOptions& options = run.spec().options;
  std::optional<int> ranks = options.workers;
  if (ranks && options.service_rank) ++*ranks;
  std::vector<std::string> words;
  const bool is_virtual = cluster_kind(options.cluster).is_virtual;
  const std::string_view launch = is_virtual ? "" : std::string_view(plan_.spec().launch);
  for (const std::string_view part : split(launch, ' ')) {
    std::string word(part);
    if (word.empty()) continue;
    fill_in(word, "{workers}", options.workers);
    fill_in(word, "{ranks}", ranks);
    words.push_back(std::move(word));
  }
  words.push_back(own_program().string());
  const Tuning* const tuning = tuning_of(planned);
  if (tuning != nullptr) {  // --tuned sets the learning rate, and the result notes its origin
    std::erase_if(settings, [](const Setting& each) { return each.name == "learning_rate"; });
  }
  for (std::string& argument : train_arguments(settings)) words.push_back(std::move(argument));
  if (tuning != nullptr) words.push_back("--tuned=" + folder_.tuned_file(tuning->hash()));
  if (options_.redact) words.emplace_back("--redact");
  words.insert(words.end(), {"--quiet", resume ? "--resume" : "--overwrite", "-o",
                             fs::absolute(folder_.result_file(planned)).string()});
  return words;
}

json Sweep::about(const PlannedRun& run) const {
  const SweepSpec& spec = plan_.spec();
  json result = {{"id", run.name()},
                 {"stage", to_string(run.stage)},
                 {"setup", spec.setup_of(run.cell).name},
                 {"case", spec.case_of(run.cell).name},
                 {"algorithm", algorithm_of(plan_.settings(run))},
                 {"parameters", values_of(plan_.candidate(run).point)},
                 {"seed", run.seed}};
  if (run.stage == SweepStage::final && plan_.choice(run.cell)) {
    result["tuned"] = values_of(*plan_.choice(run.cell));
  }
  return result;
}

void Sweep::add_to_index(const PlannedRun& run, const json& result) const {
  const SweepSpec& spec = plan_.spec();
  const std::string path = folder_.result_file(run);
  const std::string file = fs::path(path).lexically_relative(folder_.path()).string();
  try {
    const SetupSpec& setup = spec.setup_of(run.cell);
    const bool is_trial = run.stage == SweepStage::tuning;
    const auto goal = is_trial ? std::optional(setup.tuning_goal()) : setup.goal;
    json line = index_line(about(run), result, goal, file);
    if (const auto state = state_of(path)) {
      line.update({{"bytes", state->bytes}, {"modified_ns", state->modified_ns}});
    }
    folder_.append_to_index(line);
  } catch (const Error& error) {
    warn("{}; the index is made again from the results", error.what());
  }
}

void Sweep::add_failure(FailedRun failure) {
  json line = about(failure.run);
  line["status"] = "failed";
  line["file"] = nullptr;
  line["reason"] = failure.reason;
  try {
    folder_.append_to_index(line);
  } catch (const Error& error) {
    warn("{}", error.what());
  }
  failures_.push_back(std::move(failure));
}

std::vector<bool> Sweep::find_done(const std::vector<PlannedRun>& runs, bool remember) const {
  const bool many = runs.size() > 1;
  const SweepIndex index = many ? folder_.read_index() : SweepIndex();
  std::vector<bool> done;
  for (const PlannedRun& run : runs) {
    const std::string file = folder_.result_file(run);
    const std::optional<FileState> state = state_of(file);
    const Tuning* const tuning = tuning_of(run);
    const bool known =
        state && index.has_result(run.name(), *state, tuning == nullptr ? "" : tuning->hash());
    done.push_back(known || (state && is_done_by_result(run, file, remember)));
  }
  return done;
}

bool Sweep::is_done_by_result(const PlannedRun& run, const std::string& file, bool remember) const {
  try {
    json result = read_result(file);
    if (!is_done(result["status"])) return false;
    const std::string other = first_other_option(plan_.settings(run), result["config"]);
    if (!other.empty()) throw data_error("{}: the result of another run: {} differs", file, other);
    if (!remember) return true;
    const json tuning = tuning_of_result(run, result["config"]);
    if (!tuning.is_null() && result.value("tuning", json()) != tuning) {
      result["tuning"] = tuning;
      write_result(file, result);
    }
    add_to_index(run, result);
    return true;
  } catch (const Error& error) {  // the file is broken, or no result
    warn("{}; the run is repeated", error.what());
    return false;
  }
}

// --- conclusions from the trials -----------------------------------------------------------------

// A null `result` means that the run failed.
TrialOutcome Sweep::outcome_of(const json& result, const PlannedRun& run, const Goal& goal) const {
  TrialOutcome trial;
  if (!result.is_null()) {
    trial = judge(result, goal);
  } else {
    trial.seed = run.seed;
    trial.status = "failed";
    const auto why = std::ranges::find(failures_, run.id, [](const auto& f) { return f.run.id; });
    trial.status_reason = why == failures_.end() ? "there is no result" : why->reason;
  }
  trial.id = run.name();
  return trial;
}

std::vector<Tuning> Sweep::judge_trials() const {
  const SweepSpec& spec = plan_.spec();
  std::map<std::size_t, Tuning> by_cell;
  for (const PlannedRun& run : plan_.trials()) {
    Tuning& tuning = by_cell[run.cell];
    if (tuning.points.empty()) {
      const SetupSpec& setup = spec.setup_of(run.cell);
      tuning = {.cell = run.cell,
                .setup = setup.name,
                .case_name = spec.case_of(run.cell).name,
                .algorithm = algorithm_of(plan_.settings(run)),
                .goal = setup.tuning_goal(),
                .seeds = setup.tuning->seeds};
      for (const Candidate& each : plan_.candidates(SweepStage::tuning, run.cell)) {
        tuning.points.push_back({values_of(each.point)});
      }
    }
    const json result = result_of_trial(folder_.result_file(run));
    tuning.points[run.candidate].trials.push_back(outcome_of(result, run, tuning.goal));
    if (tuning.config.is_null() && !result.is_null()) describe(tuning, result);
  }
  std::vector<Tuning> tunings;
  for (auto& [cell, tuning] : by_cell) {
    const std::vector<Candidate>& all = plan_.candidates(SweepStage::tuning, cell);
    tuning.best = best_of(tuning.goal, tuning.points);
    if (tuning.best) {
      tuning.edges = edges_of(spec.setup_of(cell).tuning->space, all, all[*tuning.best]);
    }
    tuning.note = note_of(tuning);
    tunings.push_back(std::move(tuning));
  }
  return tunings;
}

bool Sweep::widen_tunings() {
  bool is_wider = false;
  for (const Tuning& tuning : judge_trials()) {
    if (tuning.best && plan_.widen(tuning.cell, *tuning.best)) is_wider = true;
  }
  return is_wider;
}

void Sweep::conclude_tuning() {
  const SweepSpec& spec = plan_.spec();
  Choices choices(spec.cells.size());
  tunings_ = judge_trials();
  for (const Tuning& tuning : tunings_) {
    if (tuning.best) {
      choices[tuning.cell] = plan_.candidates(SweepStage::tuning, tuning.cell)[*tuning.best].point;
    } else if (!spec.seeds.empty()) {  // there are final runs
      const std::string title = spec.title(tuning.cell);
      throw with_hint(runtime_failure("{}: no trial of {} completed", spec.path,
                                      title.empty() ? "the tuning" : title),
                      "tune with smaller learning rates");
    }
  }
  plan_.plan_final_runs(choices);
}

void Sweep::write_tunings() const {
  if (tunings_.empty()) return;
  for (const Tuning& tuning : tunings_) {
    if (tuning.note.is_null()) continue;
    write_result(folder_.tuned_file(tuning.hash()), tuning_json({&tuning, 1}, json::array()));
  }
  write_result(folder_.tuning_file(), tuning_json(tunings_, json::array()));
}

const Tuning* Sweep::tuning_of(const PlannedRun& run) const {
  const auto found = std::ranges::find(tunings_, run.cell, &Tuning::cell);
  const bool is_tuned = run.stage == SweepStage::final && found != tunings_.end();
  return is_tuned && !found->note.is_null() ? &*found : nullptr;
}

json Sweep::tuning_of_result(const PlannedRun& run, const json& config) const {
  const Tuning* const tuning = tuning_of(run);
  return tuning == nullptr ? json() : note_of_run(tuning->note, tuning->config, config);
}

SweepEnd Sweep::run(const SweepHooks& hooks) {
  const auto start = HostClock::now();
  SweepEnd end = SweepEnd::completed;
  while (!plan_.trials().empty()) {
    end = run_stage(plan_.trials(), hooks, start);
    const bool go_on =
        end == SweepEnd::completed || (end == SweepEnd::failed && !options_.fail_fast);
    if (!go_on) return end;
    // After failures, which the same command repeats, the best value is not known.
    if (end == SweepEnd::failed || !widen_tunings()) break;
  }
  conclude_tuning();
  write_tunings();
  const SweepEnd last = run_stage(plan_.final_runs(), hooks, start);
  if (last != SweepEnd::completed) end = last;
  std::vector<PlannedRun> all = plan_.trials();
  all.insert(all.end(), plan_.final_runs().begin(), plan_.final_runs().end());
  folder_.tidy();
  folder_.rewrite_index(all, [this](const PlannedRun& run) { return about(run); });
  return end;
}

}  // namespace hetsgd
