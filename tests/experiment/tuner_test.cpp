#include "experiment/tuner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "result/summary.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"

namespace hetsgd {
namespace {

using test::usage_error_of;
using ::testing::HasSubstr;

TunerOptions options_of(std::vector<std::string> algorithms, const std::string& goal = "p1") {
  TunerOptions options;
  options.algorithms = std::move(algorithms);
  options.goal = parse_goal(goal, "--goal");
  options.grid = {0.1, 0.5, 1e30};
  options.seeds = {1, 2};
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"train", "generate:tiny"},
                                                           {"validation", 0.2},
                                                           {"cache", false},
                                                           {"hidden", {16}},
                                                           {"batch_size", 32},
                                                           {"workers", 2},
                                                           {"epochs", 1},
                                                           {"staleness", {"7"}}}) {
    options.settings.push_back({name, value, OptionSource::flag, "--" + name});
  }
  return options;
}

TEST(TunerTest, RunsTheWholeGridOfEveryAlgorithm) {
  Tuner tuner(options_of({"ssgd", "ssp"}));
  EXPECT_EQ(tuner.trials_left(), 12U);
  tuner.load();
  std::vector<std::string> order;
  TunerHooks hooks;
  hooks.on_trial = [&](const AlgorithmTuning& algorithm, const Trial& trial) {
    order.push_back(fmt::format("{} {} {}", algorithm.algorithm, trial.learning_rate, trial.seed));
  };
  EXPECT_EQ(tuner.run(hooks), TunerEnd::completed);
  EXPECT_EQ(tuner.trials_left(), 0U);
  ASSERT_EQ(order.size(), 12U);
  EXPECT_EQ(order[1], "ssgd 0.1 2");
  EXPECT_EQ(order[6], "ssp 0.1 1");

  const Tuning& tuning = tuner.tuning();
  EXPECT_EQ(tuning.dataset["train"]["rows"], 1600);
  EXPECT_EQ(tuning.dataset["validation"]["rows"], 400);
  EXPECT_FALSE(tuning.algorithms[0].config.contains("staleness"));
  EXPECT_EQ(tuning.algorithms[1].config["staleness"], 7);
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    EXPECT_FALSE(algorithm.config.contains("learning_rate"));
    for (const Trial& trial : algorithm.trials) {
      const bool diverges = trial.learning_rate > 1;
      EXPECT_EQ(trial.status, diverges ? "diverged" : "completed");
      EXPECT_EQ(trial.value.has_value(), !diverges);
      if (diverges) continue;
      EXPECT_GE(trial.samples_count, 1600U);  // the same budget for everybody
      EXPECT_LT(trial.samples_count, 1600U + 64);
    }
    EXPECT_EQ(choose(tuning, algorithm)->learning_rate, 0.5);
    EXPECT_FALSE(choose(tuning, algorithm)->edge_of_grid);
  }
  EXPECT_THAT(validate_tuning(tuning_json(tuning, {})), ::testing::IsEmpty());
}

// A trial is the run that train would make on the same split.
TEST(TunerTest, ATrialIsARunOfTrain) {
  TunerOptions options = options_of({"ssgd"}, "p1>=0.2");
  options.grid = {0.5};
  options.seeds = {3};
  options.settings.push_back({"mega_batch", 5, OptionSource::flag, "--mega-batch"});
  Tuner tuner(options);
  tuner.load();
  tuner.run({});
  const Trial& trial = tuner.tuning().algorithms[0].trials[0];
  const Record record = test::run_training({{"train", "generate:tiny"},
                                            {"validation", "0.2"},
                                            {"cache", "false"},
                                            {"hidden", "16"},
                                            {"batch_size", "32"},
                                            {"workers", "2"},
                                            {"epochs", "1"},
                                            {"mega_batch", "5"},
                                            {"algorithm", "ssgd"},
                                            {"learning_rate", "0.5"},
                                            {"seed", "3"}});
  EXPECT_EQ(trial.value, metric_of(record.curve.back(), "p1"));
  EXPECT_EQ(trial.samples_count, record.curve.back().samples_count);
  EXPECT_EQ(trial.train_s, record.elapsed.count());
  const TimeToAccuracy time = time_to(record, {"p1", true, 0.2});
  ASSERT_TRUE(time.held);
  EXPECT_EQ(trial.time_to_target_s, time.held->time_s);
}

// The record of a tuning but for the host's times.
nlohmann::json without_wall(const Tuning& tuning) {
  nlohmann::json document = tuning_json(tuning, {});
  document["cost"].erase("wall_s");
  for (nlohmann::json& algorithm : document["algorithms"]) {
    algorithm["cost"].erase("wall_s");
    for (nlohmann::json& trial : algorithm["trials"]) trial.erase("wall_s");
  }
  return document;
}

TEST(TunerTest, TrialsSideBySideGiveTheSameRecord) {
  Tuner in_turn(options_of({"ssgd", "asgd"}, "p1>=0.2"));
  in_turn.load();
  in_turn.run({});
  TunerOptions options = options_of({"ssgd", "asgd"}, "p1>=0.2");
  options.jobs = 3;
  Tuner side_by_side(options);
  side_by_side.load();
  std::size_t most = 0, ended = 0;
  TunerHooks hooks;
  hooks.on_running = [&](std::size_t trials) { most = std::max(most, trials); };
  hooks.on_trial = [&](const AlgorithmTuning& algorithm, const Trial& trial) {
    ++ended;
    EXPECT_NE(algorithm.find(trial.learning_rate, trial.seed), nullptr);
  };
  EXPECT_EQ(side_by_side.run(hooks), TunerEnd::completed);
  EXPECT_EQ(most, 3U);
  EXPECT_EQ(ended, 12U);
  EXPECT_EQ(without_wall(side_by_side.tuning()), without_wall(in_turn.tuning()));
}

// Two trials that do not end by themselves.
TunerOptions endless_trials() {
  TunerOptions options = options_of({"ssgd"});
  options.grid = {0.1};
  options.settings.back() = {"max_samples", 1000000000000, OptionSource::flag, "--max-samples"};
  std::erase_if(options.settings, [](const Setting& each) { return each.name == "epochs"; });
  return options;
}

TEST(TunerTest, WhatEndsTheTuningEndsAllTrialsUnderWay) {
  TunerOptions options = endless_trials();
  options.jobs = 2;
  std::atomic<int> signal = 0;
  TunerHooks hooks;
  hooks.signal = &signal;
  hooks.on_running = [&](std::size_t trials) { signal = trials == 2 ? 15 : 0; };
  Tuner tuner(options);
  tuner.load();
  EXPECT_EQ(tuner.run(hooks), TunerEnd::aborted);
  EXPECT_EQ(tuner.trials_left(), 2U);

  options.settings.push_back({"time_limit", "100ms", OptionSource::flag, "--time-limit"});
  Tuner limited(options);
  limited.load();
  EXPECT_EQ(limited.run({}), TunerEnd::time_limit);
  EXPECT_EQ(limited.trials_left(), 2U);
}

TEST(TunerTest, GoesOnWhereItWasCutOff) {
  Tuner whole(options_of({"ssgd", "asgd"}));
  whole.load();
  whole.run({});

  // three trials and a failed one are there
  Tuning earlier = whole.tuning();
  earlier.algorithms[0].trials.resize(4);
  earlier.algorithms[0].trials[3].status = "failed";
  earlier.algorithms[1].trials.clear();
  earlier.algorithms.push_back({"esync", {{"workers", 9}}, {}});  // not asked for: stays

  Tuner resumed(options_of({"ssgd", "asgd"}));
  resumed.resume(earlier, "c.json");
  EXPECT_EQ(resumed.trials_left(), 12U - 3U);
  resumed.load();
  EXPECT_EQ(resumed.run({}), TunerEnd::completed);
  ASSERT_EQ(resumed.tuning().algorithms.size(), 3U);
  for (std::size_t a = 0; a < 2; ++a) {
    for (const Trial& trial : whole.tuning().algorithms[a].trials) {
      const Trial* const again =
          resumed.tuning().algorithms[a].find(trial.learning_rate, trial.seed);
      ASSERT_NE(again, nullptr);
      EXPECT_EQ(again->value, trial.value);
      EXPECT_EQ(again->train_s, trial.train_s);
    }
  }
}

TEST(TunerTest, ASignalDropsTheTrialUnderWay) {
  TunerOptions options = endless_trials();
  const std::atomic<int> signal = 15;
  TunerHooks hooks;
  hooks.signal = &signal;
  Tuner tuner(options);
  tuner.load();
  EXPECT_EQ(tuner.run(hooks), TunerEnd::aborted);
  EXPECT_EQ(tuner.trials_left(), 2U);

  options.settings.push_back({"time_limit", "100ms", OptionSource::flag, "--time-limit"});
  Tuner limited(options);
  limited.load();
  EXPECT_EQ(limited.run({}), TunerEnd::time_limit);
  EXPECT_TRUE(limited.tuning().algorithms[0].trials.empty());
}

TEST(TunerTest, RefusesAnotherTuning) {
  const Tuning earlier = Tuner(options_of({"ssgd"})).tuning();
  const auto message = [&](const std::function<void(TunerOptions&)>& change) {
    TunerOptions options = options_of({"ssgd", "asgd"});
    change(options);
    return usage_error_of([&] { Tuner(options).resume(earlier, "c.json"); });
  };
  EXPECT_EQ(message([](TunerOptions&) {}), "no error");  // one more algorithm is fine
  EXPECT_THAT(message([](TunerOptions& o) { o.grid.pop_back(); }),
              HasSubstr("--resume: c.json holds another tuning: grid differs"));
  EXPECT_THAT(message([](TunerOptions& o) { o.seeds = {1}; }), HasSubstr("tune_seeds differs"));
  EXPECT_THAT(message([](TunerOptions& o) { o.goal->metric = "p3"; }), HasSubstr("goal differs"));
  EXPECT_THAT(message([](TunerOptions& o) { o.settings[4].value = 64; }),
              HasSubstr("batch_size of ssgd differs"));
}

TEST(TunerTest, MistakesShowBeforeAnythingIsLoaded) {
  EXPECT_EQ(usage_error_of([] {
              Tuner(options_of({"ssgd", "ssgd"}));
            }),
            "--algorithms: found ssgd twice");
  EXPECT_THAT(usage_error_of([] {
                Tuner(options_of({"ssgd", "sgd"}));
              }),
              HasSubstr("sgd runs on at most 1"));
  TunerOptions options = options_of({"ssgd"}, "accuracy");
  Tuner tuner(options);
  EXPECT_EQ(
      usage_error_of([&] { tuner.load(); }),
      "--goal: found accuracy, but accuracy is not measured on multilabel data with 50 labels, "
      "expected one of p1, p3, p5, test_loss, train_loss");
}

}  // namespace
}  // namespace hetsgd
