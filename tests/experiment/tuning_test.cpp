#include "experiment/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::error_of;
using test::usage_error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseGrid, ListsAndRanges) {
  EXPECT_THAT(parse_grid("0.3,0.1,1", "--grid"), ElementsAre(0.1, 0.3, 1));
  EXPECT_THAT(parse_grid("2", "--grid"), ElementsAre(2));
  EXPECT_THAT(parse_grid("0.01:1:5", "--grid"), ElementsAre(0.01, 0.0316, 0.1, 0.316, 1));
  EXPECT_THAT(parse_grid("1:16:5", "--grid"), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(parse_grid("1:16:100", "--grid").size(), 100U);
  EXPECT_THAT(usage_error_of([] { parse_grid("1e-308:1e308:1000", "--grid"); }),
              HasSubstr("from 2 to 100"));
  EXPECT_THAT(parse_grid("0.12345:2:2", "--grid"), ElementsAre(0.12345, 2));  // ends as typed
}

TEST(ParseGrid, RefusesWhatIsNoGrid) {
  const auto message = [](const char* text) {
    return usage_error_of([&] { parse_grid(text, "--grid"); });
  };
  EXPECT_THAT(message("0.1,x"), HasSubstr("--grid: found \"x\""));
  EXPECT_EQ(message("0.1,0"), "--grid: found 0, expected learning rates above 0");
  EXPECT_EQ(message("0.1,0.3,0.1"), "--grid: found 0.1 twice, expected each learning rate once");
  EXPECT_EQ(message("0.1:1"), "--grid: found \"0.1:1\", expected FROM:TO:COUNT such as 0.01:1:5");
  EXPECT_EQ(message("1:0.1:3"), "--grid: found \"1:0.1:3\", expected 0 < FROM < TO");
  EXPECT_THAT(message("0.1:1:1"), HasSubstr("--grid: found \"1\""));
  EXPECT_THAT(message("1:1.001:50"), HasSubstr("twice"));
}

TEST(ParseGoal, MetricsAndTargets) {
  const Goal final = parse_goal("p1", "--goal");
  EXPECT_EQ(final.text(), "p1");
  EXPECT_FALSE(final.target);
  EXPECT_TRUE(final.larger_is_better());
  EXPECT_FALSE(parse_goal("test_loss", "--goal").larger_is_better());
  const Goal time = parse_goal("accuracy>=0.6", "--goal");
  EXPECT_EQ(time.text(), "accuracy>=0.6");
  EXPECT_EQ(time.metric, "accuracy");
  EXPECT_FALSE(parse_goal("test_loss<=2", "--goal").larger_is_better());
  EXPECT_THAT(usage_error_of([] { parse_goal("speed", "--goal"); }), HasSubstr("found the metric"));
}

// A tuning of one algorithm over 0.1, 0.3, 1 whose trials have these (value, time).
struct Outcome {
  std::optional<double> value, time;
};
Tuning tuning_with(const std::string& goal, const std::vector<std::vector<Outcome>>& by_rate) {
  Tuning tuning;
  tuning.goal = parse_goal(goal, "goal");
  tuning.validation = 0.1;
  tuning.dataset = {{"train", {{"rows", 90}, {"content_hash", "xxh3:0000000000000001"}}},
                    {"validation", {{"rows", 10}, {"content_hash", "xxh3:0000000000000002"}}}};
  const std::vector<double> rates = {0.1, 0.3, 1};
  AlgorithmTuning algorithm{"ssgd", {{"algorithm", "ssgd"}, {"workers", 2}}, {}};
  for (std::size_t r = 0; r < by_rate.size(); ++r) {
    tuning.grid.push_back(rates[r]);
    Trials& trials = algorithm.trials.emplace_back();
    for (std::size_t s = 0; s < by_rate[r].size(); ++s) {
      const Outcome& outcome = by_rate[r][s];
      TrialOutcome trial;
      trial.seed = s + 1;
      trial.status = outcome.value ? "completed" : "diverged";
      trial.value = outcome.value;
      trial.time_to_target_s = outcome.time;
      trial.samples_count = 100;
      trial.train_s = 2;
      trial.wall_s = 0.5;
      trials.push_back(trial);
    }
  }
  for (std::size_t s = 0; s < by_rate.front().size(); ++s) tuning.seeds.push_back(s + 1);
  tuning.algorithms = {algorithm};
  return tuning;
}

std::optional<Choice> choice_of(const Tuning& tuning) {
  return choose(tuning, tuning.algorithms.front());
}

TEST(Choose, TheBestFinalValue) {
  const auto up = choice_of(tuning_with("p1", {{{0.4, {}}}, {{0.6, {}}}, {{0.5, {}}}}));
  EXPECT_EQ(up->learning_rate, 0.3);
  EXPECT_FALSE(up->edge_of_grid);
  const auto down = choice_of(tuning_with("test_loss", {{{4, {}}}, {{6, {}}}, {{5, {}}}}));
  EXPECT_EQ(down->learning_rate, 0.1);
  EXPECT_TRUE(down->edge_of_grid);
  EXPECT_EQ(choice_of(tuning_with("p1", {{{0.4, {}}}, {{0.4, {}}}}))->learning_rate, 0.1);
}

TEST(Choose, TheEarliestTimeThenTheBestValue) {
  const auto time = choice_of(tuning_with("p1>=0.5", {{{0.9, {}}}, {{0.6, 7.0}}, {{0.5, 4.0}}}));
  EXPECT_EQ(time->learning_rate, 1);
  const auto tie = choice_of(tuning_with("p1>=0.5", {{{0.6, 4.0}}, {{0.7, 4.0}}, {{0.5, 4.0}}}));
  EXPECT_EQ(tie->learning_rate, 0.3);
  const auto nobody = choice_of(tuning_with("p1>=0.9", {{{0.4, {}}}, {{0.6, {}}}, {{0.5, {}}}}));
  EXPECT_EQ(nobody->learning_rate, 0.3);
}

TEST(Choose, ADivergedTrialIsTheWorst) {
  // The median over three seeds shrugs off one diverged trial, that over two does not.
  const Outcome good{0.6, {}}, bad{0.2, {}}, diverged{{}, {}};
  EXPECT_EQ(choice_of(tuning_with("p1", {{bad, bad, bad}, {good, diverged, good}}))->learning_rate,
            0.3);
  EXPECT_EQ(choice_of(tuning_with("p1", {{bad, bad}, {good, diverged}}))->learning_rate, 0.1);
  EXPECT_FALSE(choice_of(tuning_with("p1", {{diverged}, {diverged}})));
  EXPECT_FALSE(choice_of(tuning_with("test_loss", {{diverged}, {diverged}})));
}

TEST(Choose, NothingBeforeAllTrialsAreDone) {
  Tuning tuning = tuning_with("p1", {{{0.4, {}}}, {{0.6, {}}}});
  tuning.algorithms[0].trials[1].pop_back();
  EXPECT_FALSE(choice_of(tuning));
  EXPECT_EQ(tuning_json(tuning, {})["status"], "running");
}

TEST(TuningFile, ReadsWhatItWrote) {
  Tuning tuning = tuning_with("p1>=0.5", {{{0.4, 3.25}, {{}, {}}}, {{0.6, {}}, {0.7, 1.5}}});
  tuning.algorithms.push_back(tuning.algorithms[0]);
  tuning.algorithms[1].algorithm = "asgd";
  tuning.algorithms[1].trials.assign(2, {});
  const json document = tuning_json(tuning, {"tune"});
  EXPECT_TRUE(is_tuning(document));
  EXPECT_EQ(tuning_json(tuning_of(json::parse(document.dump())), {"tune"}), document);
  EXPECT_EQ(document["cost"],
            json({{"trials", 4}, {"samples_count", 400}, {"train_s", 8.0}, {"wall_s", 2.0}}));
  EXPECT_EQ(document["algorithms"][0]["learning_rate"], 0.3);
  EXPECT_TRUE(document["algorithms"][1]["learning_rate"].is_null());
}

TEST(TuningFile, NamesWhatItLacks) {
  const test::TemporaryFolder folder;
  const json good = tuning_json(tuning_with("p1", {{{0.4, {}}}, {{0.6, {}}}}), {});
  const std::vector<std::pair<std::string, std::function<void(json&)>>> damages = {
      {"grid: found nothing, expected a list", [](json& t) { t.erase("grid"); }},
      {"grid: found [], expected", [](json& t) { t["grid"] = json::array(); }},
      {"goal: found 3, expected a text", [](json& t) { t["goal"] = 3; }},
      {"algorithms[0].trials[1].seed: found -1, expected a count",
       [](json& t) { t["algorithms"][0]["trials"][1]["seed"] = -1; }}};
  for (const auto& [message, damage] : damages) {
    json bad = good;
    damage(bad);
    const std::string path = folder.write("bad.json", bad.dump());
    EXPECT_THAT(error_of([&] { read_tuning(path); }, ExitCode::data), HasSubstr(message));
  }
}

TEST(TuningOfRun, SaysWhereTheLearningRateComesFrom) {
  const Tuning tuning = tuning_with("p1", {{{0.4, {}}}, {{0.6, {}}}, {{0.5, {}}}});
  const json config = {{"algorithm", "ssgd"}, {"workers", 2}, {"seed", 9}, {"epochs", 50}};
  const json about = tuning_of_run(tuning, config, "choice.json");
  EXPECT_EQ(about["learning_rate"], 0.3);
  EXPECT_EQ(about["trials"], 3);
  EXPECT_EQ(about["samples_count"], 300);
  EXPECT_EQ(about["train_s"], 6.0);
  EXPECT_EQ(about["validation_rows"], 10);
  EXPECT_EQ(about["edge_of_grid"], false);
  EXPECT_TRUE(about["differs"].empty());
  json other = config;
  other["workers"] = 8;
  other["new"] = true;
  EXPECT_EQ(tuning_of_run(tuning, other, "choice.json")["differs"], json({"new", "workers"}));
  // The hash is of what decided: not of the host's times, and not of other options of the trials.
  Tuning again = tuning;
  again.algorithms[0].trials[0][0].wall_s += 1;
  again.algorithms[0].config["new"] = true;
  EXPECT_EQ(tuning_of_run(again, config, "c")["file_hash"], about["file_hash"]);
  again.algorithms[0].trials[0][0].value = 0.41;
  EXPECT_NE(tuning_of_run(again, config, "c")["file_hash"], about["file_hash"]);
}

TEST(TuningOfRun, RefusesWhatWasNotChosen) {
  Tuning tuning = tuning_with("p1", {{{{}, {}}}});
  const auto message = [&](const char* algorithm) {
    return usage_error_of([&] { tuning_of_run(tuning, {{"algorithm", algorithm}}, "c.json"); });
  };
  EXPECT_EQ(message("asgd"), "c.json: found no tuning of asgd, expected one of ssgd");
  EXPECT_EQ(message("ssgd"), "c.json: no trial of ssgd completed");
  tuning.algorithms[0].trials[0].clear();
  EXPECT_EQ(message("ssgd"), "c.json: the tuning of ssgd is not complete");
}

}  // namespace
}  // namespace hetsgd
