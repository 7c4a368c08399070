#include "experiment/tuner.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "experiment/result_file.hpp"
#include "experiment/run.hpp"
#include "experiment/trial_pool.hpp"
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

std::vector<Setting> Tuner::settings_of(const Pending& trial) const {
  std::vector<Setting> settings = options_.settings;
  settings.push_back({"learning_rate", trial.rate, OptionSource::flag, "--grid"});
  settings.push_back({"seed", trial.seed, OptionSource::flag, "--tune-seeds"});
  return settings;
}

Tuner::Tuner(TunerOptions options) : options_(std::move(options)) {
  if (options_.goal) tuning_.goal = *options_.goal;
  tuning_.grid = options_.grid;
  tuning_.seeds = options_.seeds;
  for (const std::string& name : options_.algorithms) {
    if (find(name) != nullptr) throw usage_error("--algorithms: found {} twice", name);
    ConfiguredRun run = trial_of({name, options_.grid.front(), options_.seeds.front()});
    json config = Training(run.spec()).record().config;
    config.erase("learning_rate");
    config.erase("seed");
    if (options_.redact) redact_paths(config);
    tuning_.validation = run.options().validation;
    tuning_.algorithms.push_back({name, std::move(config), {}});
  }
  HETSGD_CHECK(tuning_.validation > 0);
}

const AlgorithmTuning* Tuner::find(const std::string& algorithm) const {
  const auto found = std::ranges::find(tuning_.algorithms, algorithm, &AlgorithmTuning::algorithm);
  return found == tuning_.algorithms.end() ? nullptr : &*found;
}

AlgorithmTuning* Tuner::find(const std::string& algorithm) {
  return const_cast<AlgorithmTuning*>(std::as_const(*this).find(algorithm));
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

std::vector<Tuner::Pending> Tuner::pending() const {
  std::vector<Pending> left;
  for (const std::string& name : options_.algorithms) {
    for (const double rate : tuning_.grid) {
      for (const std::uint64_t seed : tuning_.seeds) {
        if (find(name)->find(rate, seed) == nullptr) left.push_back({name, rate, seed});
      }
    }
  }
  return left;
}

std::size_t Tuner::trials_left() const { return pending().size(); }

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
  ConfiguredRun any(options_.algorithms.front(), options_.settings);
  const bool is_virtual = cluster_kind(any.options().cluster).is_virtual;
  return is_virtual && options_.jobs > 1 ? run_side_by_side(hooks) : run_in_turn(hooks);
}

TunerEnd Tuner::run_in_turn(const TunerHooks& hooks) {
  const auto start = HostClock::now();
  for (const Pending& next : pending()) {
    ConfiguredRun run = trial_of(next);
    if (const auto end = cut_off(run.options(), start, hooks)) return *end;
    const auto began = HostClock::now();
    const Outcome outcome =
        run_one(run.spec(), {}, {.on_progress = hooks.on_progress, .signal = hooks.signal}, &data_);
    const TunerEnd end = take(next, result_json(outcome.record, {}), seconds_since(began), hooks);
    if (end != TunerEnd::completed) return end;
  }
  return TunerEnd::completed;
}

TunerEnd Tuner::run_side_by_side(const TunerHooks& hooks) {
  const auto start = HostClock::now();
  const std::vector<Pending> left = pending();
  TrialPool pool(data_, options_.jobs);
  std::size_t next = 0;
  while (next < left.size() || pool.running() > 0) {
    while (next < left.size() && pool.has_room()) {
      const auto run =
          std::make_shared<ConfiguredRun>(left[next].algorithm, settings_of(left[next]));
      if (const auto end = cut_off(run->options(), start, hooks)) return *end;
      pool.start(next, run, hooks.signal);
      ++next;
    }
    if (hooks.on_running) hooks.on_running(pool.running());
    if (const auto ended = pool.wait(Seconds(0.25))) {
      const TunerEnd end = take(left[ended->tag], ended->result, ended->wall_s, hooks);
      if (end != TunerEnd::completed) return end;
    }
    if (hooks.signal != nullptr && hooks.signal->load() != 0) return TunerEnd::aborted;
  }
  return TunerEnd::completed;
}

std::optional<TunerEnd> Tuner::cut_off(TrainOptions& trial, HostClock::time_point start,
                                       const TunerHooks& hooks) {
  // Trials may be too short for the run's own watch to see a signal.
  if (hooks.signal != nullptr && hooks.signal->load() != 0) return TunerEnd::aborted;
  if (trial.time_limit.count() <= 0) return std::nullopt;
  trial.time_limit -= Seconds(seconds_since(start));
  return trial.time_limit.count() > 0 ? std::nullopt : std::optional(TunerEnd::time_limit);
}

TunerEnd Tuner::take(const Pending& pending, const json& result, double wall_s,
                     const TunerHooks& hooks) {
  const std::string status = result.at("status");
  if (status == to_string(Status::aborted)) return TunerEnd::aborted;
  if (status == to_string(Status::time_limit)) return TunerEnd::time_limit;
  Trial trial{judge(result, tuning_.goal), pending.rate};
  trial.wall_s = wall_s;
  AlgorithmTuning& algorithm = *find(pending.algorithm);
  // In the order of the grid and the seeds, whichever ends first.
  const auto place = [this](const Trial& each) {
    return std::pair(each.learning_rate, std::ranges::find(tuning_.seeds, each.seed));
  };
  algorithm.trials.push_back(trial);
  std::ranges::stable_sort(algorithm.trials, {}, place);
  if (hooks.on_trial) hooks.on_trial(algorithm, trial);
  return TunerEnd::completed;
}

}  // namespace hetsgd
