// Runs hetsgd's training inside a test, from options as on the command line.
#pragma once

#include <regex>
#include <sstream>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "cluster/trace/trace.hpp"
#include "core/non_copyable.hpp"
#include "core/options.hpp"
#include "support/effort.hpp"
#include "training/plan.hpp"
#include "training/training.hpp"

namespace hetsgd::test {

// Options of a run by their keys: a list of pairs, or as on the command line, where an option
// without a value is true. @name is the file name.json of tests/support/data.
struct Settings : std::vector<std::pair<std::string, std::string>> {
  using vector::vector;
  Settings(const char* flags) : Settings(std::string(flags)) {}
  Settings(const std::string& flags) {
    std::istringstream words(flags);
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) {
        back().second = word;
        continue;
      }
      std::ranges::replace(word, '-', '_');
      emplace_back(word.substr(2), "true");
    }
  }
};

inline std::string describe_settings(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += fmt::format(" --{} {}", key, value);
  return text;
}

// `base` with some settings replaced or added.
inline Settings with(Settings base, const Settings& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}
template <class... Values>
requires(sizeof...(Values) > 0) Settings
    with(Settings base, fmt::format_string<const Values&...> flags, const Values&... values) {
  return with(std::move(base), fmt::format(flags, values...));
}

// The common base of most test runs: synthetic data, a small model, small batches. It has no
// budget.
inline Settings tiny(const std::string& algorithm, const Settings& more = {}) {
  const Settings base =
      "--train generate:tiny --test generate:tiny --cache false --hidden 16 --batch-size 32 "
      "--learning-rate 0.5";
  return with(with(base, {{"algorithm", algorithm}}), more);
}

// The same for 100 batches with every step in the record, measured after each 20.
inline Settings tiny_steps(const std::string& algorithm, const Settings& more = {}) {
  return with(tiny(algorithm, "--max-samples 3200 --record-steps --evaluate-every 640"), more);
}

inline bool may_serve_tables(const AlgorithmInfo& info) {
  return info.replicated_tables_only.empty() && info.sharded_tables_only.empty();
}

inline bool is_option_of_a_model(const std::string& key) {
  return std::ranges::any_of(models(), [&](const RegisteredModel& registered) {
    const auto factory = registered.make();
    OptionSet set;
    factory->declare(set);
    return set.find(key) != nullptr;
  });
}

// A run as the settings describe it. Later settings replace earlier ones of the same key, except
// for lists (straggler, target), which collect. Options of models other than the chosen one are
// left out.
class Configuration : NonCopyable {
 public:
  explicit Configuration(const Settings& settings) {
    std::vector<std::pair<std::string, std::vector<std::string>>> values;
    static const std::regex name("@([a-z_0-9]+)");
    for (const auto& [key, text] : settings) {
      const std::string value = std::regex_replace(text, name, HETSGD_TEST_DATA "/$1.json");
      if (key == "algorithm") options.algorithm = value;
      if (key == "model") options.choose_model(value);
      auto found = std::ranges::find(values, key, [](const auto& each) { return each.first; });
      if (found == values.end()) {
        values.emplace_back(key, std::vector{value});
      } else if (key == "straggler" || key == "target") {
        found->second.push_back(value);
      } else {
        found->second = {value};
      }
    }
    const RegisteredAlgorithm& registered = find_algorithm(options.algorithm);
    info_ = registered.info;
    algorithm_ = registered.make();
    options.declare(set_);
    declare_options(*algorithm_, info_, set_);
    for (const auto& [key, texts] : values) {
      if (!set_.find(key) && is_option_of_a_model(key)) continue;
      set_.set(key, texts, OptionSource::flag, "--" + key);
    }
    settle_learning_rate(options, info_, set_);
  }

  RunSpec spec() const { return {options, set_, algorithm_, info_}; }

  TrainOptions options;

 private:
  OptionSet set_;
  AlgorithmInfo info_;
  std::shared_ptr<Algorithm> algorithm_;
};

// The record of a run that is loaded, which is to end so. An error that ends it is thrown.
inline Record run_loaded(Training& training, const TrainHooks& hooks = {},
                         Status ends = Status::completed) {
  training.run(hooks);
  if (training.failure()) std::rethrow_exception(training.failure());
  EXPECT_EQ(to_string(training.record().status), to_string(ends))
      << training.record().status_reason;
  return training.record();
}

// ThreadSanitizer sees every run with a trace, too: its lines are written by all threads.
inline Record run_training(const Settings& settings, TrainHooks hooks = {},
                           Status ends = Status::completed) {
  Trace trace;
  if (kSanitizer == Sanitizer::thread && hooks.trace == nullptr) hooks.trace = &trace;
  const Configuration configuration(settings);
  Training training(configuration.spec());
  training.load();
  return run_loaded(training, hooks, ends);
}

// The run as `settings` say it, with an algorithm in the place of theirs that is not registered:
// other tests run every algorithm that is.
inline Record run_algorithm(std::shared_ptr<Algorithm> algorithm, const Settings& settings,
                            const TrainHooks& hooks = {},
                            const std::string& name = "unregistered") {
  const Configuration configuration(settings);
  RunSpec spec = configuration.spec();
  spec.algorithm = std::move(algorithm);
  spec.info.name = name;
  Training training(spec);
  training.load();
  return run_loaded(training, hooks);
}

// The message of the error with which a run ends; "no error" if it does not.
inline std::string failure_of_run(const Settings& settings) {
  try {
    run_training(settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Samples that workers have computed, less those that the record calls lost or redone. With every
// sample counted once it is what the model has learnt from.
inline std::uint64_t kept_samples(const Record& run) {
  std::uint64_t samples = 0;
  for (const WorkerRecord& worker : run.workers) samples += worker.samples;
  for (const FailureRecord& failure : run.failures) {
    samples -= failure.lost_samples + failure.redone_samples;
  }
  return samples;
}

inline Record run_with(const Settings& base, const Settings& more) {
  return run_training(with(base, more));
}
template <class... Values>
requires(sizeof...(Values) > 0) Record
    run_with(const Settings& base, fmt::format_string<const Values&...> flags,
             const Values&... values) {
  return run_training(with(base, flags, values...));
}

// The warnings before the run.
inline std::vector<std::string> foreseen_warnings(const Settings& settings) {
  const Configuration configuration(settings);
  Training training(configuration.spec());
  training.load();
  return training.record().warnings;
}

// The end of a worker whose life is no loop: by the rules, where the initial model is measured.
inline void end_run(Worker& self) {
  const Buffer w = self.initial_parameters();
  while (self.running()) {
    self.end_budget();
    self.evaluate_here(w);
  }
}

// Losses of the test data at all points of the curve.
inline std::vector<double> test_losses(const Record& run) {
  std::vector<double> losses;
  for (const CurvePoint& point : run.curve) losses.push_back(point.test_loss());
  return losses;
}

// When they were measured.
inline std::vector<Seconds> times(const Record& run) {
  std::vector<Seconds> times;
  for (const CurvePoint& point : run.curve) times.push_back(point.time);
  return times;
}

// Seconds for which a worker has computed.
inline double compute_s(const Record& run, std::size_t rank = 0) {
  return run.workers[rank].report.breakdown.compute.count();
}

// The losses of all recorded steps, ordered by (iteration, rank).
inline std::vector<double> step_losses(const Record& record) {
  std::vector<std::tuple<int, int, double>> steps;
  for (const auto& event : record.events) {
    if (event["type"] != "step") continue;
    steps.emplace_back(event["iteration"].get<int>(), event["rank"].get<int>(),
                       event["loss"].get<double>());
  }
  std::sort(steps.begin(), steps.end());
  std::vector<double> losses;
  for (const auto& step : steps) losses.push_back(std::get<2>(step));
  return losses;
}

inline std::vector<nlohmann::json> events_of(const Record& record, const std::string& type) {
  std::vector<nlohmann::json> found;
  for (const auto& event : record.events) {
    if (event["type"] == type) found.push_back(event);
  }
  return found;
}

inline std::vector<nlohmann::json> merges(const Record& record) {
  return events_of(record, "merge");
}

}  // namespace hetsgd::test
