#include "experiment/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/spec_settings.hpp"
#include "experiment/stage_runner.hpp"
#include "result/time_to_accuracy.hpp"

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

}  // namespace

std::vector<std::string> command_of(const SweepSpec& spec, const std::vector<Setting>& settings,
                                    const std::string& output, bool resume) {
  ConfiguredRun run(algorithm_of(settings), settings);
  const TrainOptions& options = run.options();
  std::optional<int> ranks = options.workers;
  if (ranks && options.service_rank) ++*ranks;
  std::vector<std::string> words;
  const bool is_virtual = cluster_kind(options.cluster).is_virtual;
  for (const std::string_view part : split(is_virtual ? "" : std::string_view(spec.launch), ' ')) {
    std::string word(part);
    if (word.empty()) continue;
    fill_in(word, "{workers}", options.workers);
    fill_in(word, "{ranks}", ranks);
    words.push_back(std::move(word));
  }
  words.push_back(fs::read_symlink("/proc/self/exe").string());
  for (std::string& argument : train_arguments(settings)) words.push_back(std::move(argument));
  words.insert(words.end(), {"--quiet", resume ? "--resume" : "--overwrite", "-o", output});
  return words;
}

json index_line(const json& about, const json& result, const std::optional<Goal>& goal,
                const std::string& file) {
  json line = about;
  line["status"] = result.at("status");
  line["file"] = file;
  const json& summary = result.at("summary");
  json figures = json::object();
  for (const char* const key : {"elapsed_s", "samples_count", "epoch_num", "updates", "final"}) {
    figures[key] = summary.at(key);
  }
  figures["wall_s"] = result.at("wall").at("total_s");
  figures["best"] = json::object();
  for (const auto& [metric, best] : summary.at("best").items()) {
    figures["best"][metric] = best.at("value");
  }
  if (goal && goal->target) {
    const auto curve = evaluations_of(result, goal->metric);
    const auto first = time_to_accuracy(curve, *goal->target).first;
    figures["target"] = goal->target->text();
    figures["time_to_target_s"] = first ? json(first->time_s) : json(nullptr);
  }
  line["summary"] = std::move(figures);
  return line;
}

Sweep::Sweep(SweepPlan& plan, const SweepFolder& folder, SweepOptions options)
    : plan_(plan), folder_(folder), options_(std::move(options)) {}

json Sweep::about(const PlannedRun& run) const {
  const SweepSpec& spec = plan_.spec();
  const SweepCell& cell = spec.cells[run.cell];
  json result = {{"id", run.name()},
                 {"stage", to_string(run.stage)},
                 {"setup", spec.setups[cell.setup].name},
                 {"case", spec.cases[cell.method].name},
                 {"algorithm", algorithm_of(plan_.settings(run))},
                 {"parameters", plan_.candidate(run).parameters()},
                 {"seed", run.seed}};
  if (run.stage == SweepStage::final && plan_.choice(run.cell)) {
    result["tuned"] = Candidate{*plan_.choice(run.cell), 0, true}.parameters();
  }
  return result;
}

void Sweep::record(const PlannedRun& run, const json& result) const {
  const SweepSpec& spec = plan_.spec();
  const std::string file =
      fs::path(folder_.result_file(run)).lexically_relative(folder_.path()).string();
  try {
    folder_.append_to_index(
        index_line(about(run), result, spec.setups[spec.cells[run.cell].setup].goal, file));
  } catch (const Error& error) {
    warn("{}; the index is made again from the results", error.what());
  }
}

void Sweep::record_failure(FailedRun failure) {
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
    std::error_code ignored;
    const bool exists = fs::file_size(file, ignored) > 0 && !ignored;
    if (exists && index.is_done(run.name())) {
      done.push_back(true);
      continue;
    }
    done.push_back(exists && is_done_by_result(run, file, remember));
  }
  return done;
}

bool Sweep::is_done_by_result(const PlannedRun& run, const std::string& file, bool remember) const {
  try {
    const json result = read_json(file);
    if (!result.is_object() || !is_done(result.at("status"))) return false;
    if (remember) record(run, result);
    return true;
  } catch (const std::exception& error) {  // a file that is broken, or no result
    warn("{}: {}; the run is run again", file, error.what());
    return false;
  }
}

SweepEnd Sweep::run(const SweepHooks& hooks) {
  const auto start = HostClock::now();
  SweepEnd end = SweepEnd::completed;
  if (!plan_.trials().empty()) {
    end = StageRunner(*this, plan_.trials(), hooks, start).run();
    const bool go_on =
        end == SweepEnd::completed || (end == SweepEnd::failed && !options_.fail_fast);
    if (!go_on) return end;
  }
  conclude_tuning();
  write_tunings();
  const SweepEnd last = StageRunner(*this, plan_.final_runs(), hooks, start).run();
  if (last != SweepEnd::completed) end = last;
  std::vector<PlannedRun> all = plan_.trials();
  all.insert(all.end(), plan_.final_runs().begin(), plan_.final_runs().end());
  folder_.tidy_locks();
  folder_.rewrite_index(all, [this](const PlannedRun& run) { return about(run); });
  return end;
}

}  // namespace hetsgd
