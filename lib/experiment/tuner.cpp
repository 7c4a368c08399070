#include "experiment/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/host_clock.hpp"
#include "result/result.hpp"
#include "training/evaluation.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// A list that was given for an option of one value: the last one counts, as on the command line.
json fitting(const json& value, const Option& option) {
  return value.is_array() && !option.is_list() ? value.back() : value;
}

json part_json(const DatasetPtr& data) {
  return {{"rows", data->rows()},
          {"content_hash", fmt::format("xxh3:{:016x}", data->content_hash)}};
}

// The first key in which two configurations differ; "": none.
std::string difference(const json& a, const json& b) {
  const json patch = json::diff(a, b);
  return patch.empty() ? "" : patch.front()["path"].get<std::string>().substr(1);
}

// What a finished run comes to as a trial.
void judge(const Record& record, const Goal& goal, Trial& trial) {
  trial.status = to_string(record.status);
  trial.status_reason = record.status_reason;
  const CurvePoint last = record.curve.empty() ? CurvePoint{} : record.curve.back();
  trial.samples_count = last.samples_count;
  trial.train_s = std::max(record.elapsed, last.time).count();
  if (record.status != Status::completed) return;
  const std::optional<double> value = metric_of(last, goal.metric);
  if (value && std::isfinite(*value)) trial.value = value;
  if (!goal.target) return;
  for (const CurvePoint& point : record.curve) {
    if (!reached(*goal.target, metric_of(point, goal.metric).value_or(std::nan("")))) continue;
    trial.time_to_target_s = point.time.count();
    return;
  }
}

}  // namespace

// The set refers to the options, so a Run stays where it was made.
struct Tuner::Run {
  Run(const std::string& name, const std::vector<Setting>& settings)
      : info(find_algorithm(name).info), algorithm(find_algorithm(name).make()) {
    options.declare(set);
    algorithm->declare(set);
    options.algorithm = name;
    for (const Setting& setting : settings) {
      const Option* const option = set.find(setting.name);
      if (option == nullptr) continue;
      set.set_json(setting.name, fitting(setting.value, *option), setting.source, setting.place);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void choose(double rate, std::uint64_t seed) {
    set.set_json("learning_rate", rate, OptionSource::flag, "--grid");
    set.set_json("seed", seed, OptionSource::flag, "--tune-seeds");
  }

  TrainOptions options;
  OptionSet set;
  AlgorithmInfo info;
  std::shared_ptr<Algorithm> algorithm;
};

Tuner::Tuner(TunerOptions options) : options_(std::move(options)) {
  if (options_.goal) tuning_.goal = *options_.goal;
  tuning_.grid = options_.grid;
  tuning_.seeds = options_.seeds;
  for (const std::string& name : options_.algorithms) {
    if (find(name) != nullptr) throw usage_error("--algorithms: found {} twice", name);
    Run run(name, options_.settings);
    run.choose(options_.grid.front(), options_.seeds.front());
    json config = Training(run.options, run.set, run.algorithm, run.info).record().config;
    config.erase("learning_rate");
    config.erase("seed");
    if (options_.redact) redact_paths(config);
    tuning_.validation = run.options.validation;
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
    const std::string key = difference(before.config, now->config);
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
  const Run run(options_.algorithms.front(), options_.settings);
  data_ = load_run_data(run.options);
  const json dataset = {{"train", part_json(data_.train.data)},
                        {"validation", part_json(data_.test.data)}};
  if (!tuning_.dataset.is_null() && tuning_.dataset != dataset) {
    throw with_hint(usage_error("--resume: the data are not those of the earlier trials"),
                    "--overwrite starts again");
  }
  tuning_.dataset = dataset;
  const Dataset& train = *data_.train.data;
  if (tuning_.goal.metric.empty()) {
    tuning_.goal.metric = metrics_of(train.task, train.label_count).front();
  }
  check_measured(tuning_.goal.metric, train, *data_.test.data, "--goal", tuning_.goal.text());
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
  Run run(algorithm.algorithm, options_.settings);
  run.choose(rate, seed);
  Seconds& limit = run.options.time_limit;
  if (limit.count() > 0) {
    limit -= Seconds(spent_s_);
    if (limit.count() <= 0) return TunerEnd::time_limit;
  }
  Training training(run.options, run.set, run.algorithm, run.info);
  training.load(data_);
  TrainHooks train_hooks;
  train_hooks.on_progress = hooks.on_progress;
  train_hooks.signal = hooks.signal;
  const Record& record = training.run(train_hooks);
  Trial trial;
  trial.learning_rate = rate;
  trial.seed = seed;
  trial.wall_s = seconds_since(start);
  spent_s_ += trial.wall_s;
  if (record.status == Status::aborted) return TunerEnd::aborted;
  if (record.status == Status::time_limit) return TunerEnd::time_limit;
  judge(record, tuning_.goal, trial);
  algorithm.trials.push_back(std::move(trial));
  return TunerEnd::completed;
}

}  // namespace hetsgd
