#include "experiment/tuner.hpp"

#include <algorithm>
#include <chrono>

#include "core/error.hpp"
#include "core/host_clock.hpp"
#include "experiment/result_file.hpp"
#include "experiment/run.hpp"
#include "result/result.hpp"
#include "training/evaluation.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json part_json(const DatasetPtr& data) {
  return {{"rows", data->rows()},
          {"content_hash", fmt::format("xxh3:{:016x}", data->content_hash)}};
}

}  // namespace

ConfiguredRun Tuner::trial_of(const std::string& algorithm, double rate, std::uint64_t seed) const {
  std::vector<Setting> settings = options_.settings;
  settings.push_back({"learning_rate", rate, OptionSource::flag, "--grid"});
  settings.push_back({"seed", seed, OptionSource::flag, "--tune-seeds"});
  return {algorithm, settings};
}

Tuner::Tuner(TunerOptions options) : options_(std::move(options)) {
  if (options_.goal) tuning_.goal = *options_.goal;
  tuning_.grid = options_.grid;
  tuning_.seeds = options_.seeds;
  for (const std::string& name : options_.algorithms) {
    if (find(name) != nullptr) throw usage_error("--algorithms: found {} twice", name);
    ConfiguredRun run = trial_of(name, options_.grid.front(), options_.seeds.front());
    json config = Training(run.spec()).record().config;
    config.erase("learning_rate");
    config.erase("seed");
    if (options_.redact) redact_paths(config);
    tuning_.validation = run.options().validation;
    tuning_.algorithms.push_back({name, std::move(config), {}});
  }
  HETSGD_CHECK(tuning_.validation > 0);
}

AlgorithmTuning* Tuner::find(const std::string& algorithm) {
  const auto found =
      std::find_if(tuning_.algorithms.begin(), tuning_.algorithms.end(),
                   [&](const AlgorithmTuning& each) { return each.algorithm == algorithm; });
  return found == tuning_.algorithms.end() ? nullptr : &*found;
}

void Tuner::resume(const Tuning& earlier, const std::string& place) {
  const auto refuse = [&](const std::string& what) {
    throw with_hint(usage_error("--resume: {} holds another tuning: {} differs", place, what),
                    "--overwrite replaces it");
  };
  if (options_.goal && earlier.goal.text() != tuning_.goal.text()) refuse("goal");
  if (earlier.grid != tuning_.grid) refuse("grid");
  if (earlier.seeds != tuning_.seeds) refuse("tune_seeds");
  tuning_.goal = earlier.goal;
  tuning_.dataset = earlier.dataset;
  for (AlgorithmTuning before : earlier.algorithms) {
    std::erase_if(before.trials, [](const Trial& trial) { return trial.status == "failed"; });
    AlgorithmTuning* const now = find(before.algorithm);
    if (now == nullptr) {
      tuning_.algorithms.push_back(std::move(before));
      continue;
    }
    const std::string key = first_difference(before.config, now->config);
    if (!key.empty()) refuse(fmt::format("{} of {}", key, before.algorithm));
    now->trials = std::move(before.trials);
  }
}

std::size_t Tuner::trials_left() const {
  std::size_t left = 0;
  for (std::size_t i = 0; i < options_.algorithms.size(); ++i) {
    for (const double rate : tuning_.grid) {
      for (const std::uint64_t seed : tuning_.seeds) {
        left += tuning_.algorithms[i].find(rate, seed) == nullptr;
      }
    }
  }
  return left;
}

void Tuner::load() {
  ConfiguredRun run(options_.algorithms.front(), options_.settings);
  const RunData& data = data_.get(run.options());
  const json dataset = {{"train", part_json(data.train.data)},
                        {"validation", part_json(data.test.data)}};
  if (!tuning_.dataset.is_null() && tuning_.dataset != dataset) {
    throw with_hint(usage_error("--resume: the data are not those of the earlier trials"),
                    "--overwrite starts again");
  }
  tuning_.dataset = dataset;
  const Dataset& train = *data.train.data;
  if (tuning_.goal.metric.empty()) {
    tuning_.goal.metric = first_metric_of(train);
  }
  check_measured(tuning_.goal.metric, train, *data.test.data, "--goal", tuning_.goal.text());
}

TunerEnd Tuner::run(const TunerHooks& hooks) {
  for (const std::string& name : options_.algorithms) {
    AlgorithmTuning& algorithm = *find(name);
    for (const double rate : tuning_.grid) {
      for (const std::uint64_t seed : tuning_.seeds) {
        if (algorithm.find(rate, seed) != nullptr) continue;
        const TunerEnd end = run_trial(algorithm, rate, seed, hooks);
        if (end != TunerEnd::completed) return end;
        if (hooks.on_trial) hooks.on_trial(algorithm);
      }
    }
  }
  return TunerEnd::completed;
}

TunerEnd Tuner::run_trial(AlgorithmTuning& algorithm, double rate, std::uint64_t seed,
                          const TunerHooks& hooks) {
  // Trials may be too short for the run's own watch to see a signal.
  if (hooks.signal != nullptr && hooks.signal->load() != 0) return TunerEnd::aborted;
  const auto start = std::chrono::steady_clock::now();
  ConfiguredRun run = trial_of(algorithm.algorithm, rate, seed);
  Seconds& limit = run.options().time_limit;
  if (limit.count() > 0) {
    limit -= Seconds(spent_s_);
    if (limit.count() <= 0) return TunerEnd::time_limit;
  }
  const Outcome outcome =
      run_one(run.spec(), {}, {.on_progress = hooks.on_progress, .signal = hooks.signal}, &data_);
  const double wall_s = seconds_since(start);
  spent_s_ += wall_s;
  if (outcome.record.status == Status::aborted) return TunerEnd::aborted;
  if (outcome.record.status == Status::time_limit) return TunerEnd::time_limit;
  Trial trial{judge(result_json(outcome.record, {}), tuning_.goal), rate};
  trial.wall_s = wall_s;
  algorithm.trials.push_back(std::move(trial));
  return TunerEnd::completed;
}

}  // namespace hetsgd
