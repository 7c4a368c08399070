#include "experiment/tuning.hpp"

#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::usage_error_of;

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
  Tuning tuning{.case_name = "ssgd",
                .algorithm = "ssgd",
                .goal = parse_goal(goal, "goal"),
                .seeds = {},
                .config = {{"algorithm", "ssgd"}, {"workers", 2}, {"validation", 0.1}}};
  tuning.dataset = {{"train", {{"rows", 90}, {"content_hash", "xxh3:0000000000000001"}}},
                    {"validation", {{"rows", 10}, {"content_hash", "xxh3:0000000000000002"}}}};
  const std::vector<double> rates = {0.1, 0.3, 1};
  for (std::size_t r = 0; r < by_rate.size(); ++r) {
    TriedPoint& point = tuning.points.emplace_back();
    point.parameters["learning_rate"] = rates[r];
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
      point.trials.push_back(trial);
    }
  }
  for (std::size_t s = 0; s < by_rate.front().size(); ++s) tuning.seeds.push_back(s + 1);
  tuning.best = best_of(tuning.goal, tuning.points);
  tuning.note = note_of(tuning);
  return tuning;
}

// The learning rate that is chosen.
double choice_of(const std::string& goal, const std::vector<std::vector<Outcome>>& by_rate) {
  return tuning_with(goal, by_rate).note["learning_rate"];
}

TEST(BestOf, TheBestFinalValue) {
  EXPECT_EQ(choice_of("p1", {{{0.4, {}}}, {{0.6, {}}}, {{0.5, {}}}}), 0.3);
  EXPECT_EQ(choice_of("test_loss", {{{4, {}}}, {{6, {}}}, {{5, {}}}}), 0.1);
  EXPECT_EQ(choice_of("p1", {{{0.4, {}}}, {{0.4, {}}}}), 0.1);
}

TEST(BestOf, TheEarliestTimeThenTheBestValue) {
  EXPECT_EQ(choice_of("p1>=0.5", {{{0.9, {}}}, {{0.6, 7.0}}, {{0.5, 4.0}}}), 1);
  EXPECT_EQ(choice_of("p1>=0.5", {{{0.6, 4.0}}, {{0.7, 4.0}}, {{0.5, 4.0}}}), 0.3);
  EXPECT_EQ(choice_of("p1>=0.9", {{{0.4, {}}}, {{0.6, {}}}, {{0.5, {}}}}), 0.3);
}

TEST(BestOf, ADivergedTrialIsTheWorst) {
  // The median over three seeds shrugs off one diverged trial, that over two does not.
  const Outcome good{0.6, {}}, bad{0.2, {}}, diverged{{}, {}};
  EXPECT_EQ(choice_of("p1", {{bad, bad, bad}, {good, diverged, good}}), 0.3);
  EXPECT_EQ(choice_of("p1", {{bad, bad}, {good, diverged}}), 0.1);
  EXPECT_FALSE(tuning_with("p1", {{diverged}, {diverged}}).best);
  EXPECT_FALSE(tuning_with("test_loss", {{diverged}, {diverged}}).best);
}

TEST(NoteOf, SaysWhereTheLearningRateComesFrom) {
  const Tuning tuning = tuning_with("p1", {{{0.4, {}}}, {{0.6, {}}}, {{0.5, {}}}});
  EXPECT_EQ(tuning.note["grid"], json({0.1, 0.3, 1.0}));
  EXPECT_EQ(tuning.note["trials"], 3);
  EXPECT_EQ(tuning.note["samples_count"], 300);
  EXPECT_EQ(tuning.note["train_s"], 6.0);
  EXPECT_EQ(tuning.note["validation_rows"], 10);
  EXPECT_EQ(tuning.note["edge_of_grid"], false);
  EXPECT_EQ(tuning_with("p1", {{{0.6, {}}}, {{0.4, {}}}}).note["edge_of_grid"], true);
  // The order of the list decides nothing, nor do times of the host and other options of trials.
  Tuning again = tuning;
  std::ranges::reverse(again.points);
  again.points[0].trials[0].wall_s += 1;
  again.config["new"] = true;
  EXPECT_EQ(note_of(again), tuning.note);
  again.points[0].trials[0].value = 0.41;
  EXPECT_NE(note_of(again)["file_hash"], tuning.note["file_hash"]);
  again.points[0].parameters["momentum"] = 0.9;
  EXPECT_TRUE(note_of(again).is_null());
}

TEST(NoteOf, ARunNamesTheOptionsInWhichItDiffers) {
  const json trials = {{"algorithm", "ssgd"}, {"workers", 2}};
  json config = {{"algorithm", "ssgd"}, {"workers", 2}, {"seed", 9}, {"epochs", 50}};
  EXPECT_EQ(note_of_run({{"trials", 3}}, trials, config),
            json({{"trials", 3}, {"differs", json::array()}}));
  config["workers"] = 8;
  config["new"] = true;
  EXPECT_EQ(note_of_run({}, trials, config)["differs"], json({"new", "workers"}));
}

TEST(WarningsOf, WhatToKnowBeforeRelyingOnAChoice) {
  Tuning tuning = tuning_with("p1>=0.9", {{{0.4, {}}}, {{0.6, {}}}});
  tuning.edges = {"learning_rate"};
  EXPECT_THAT(warnings_of(tuning),
              ElementsAre(HasSubstr("no choice reaches p1>=0.9"),
                          HasSubstr("the best learning_rate, 0.3, lies at the edge")));
  EXPECT_THAT(warnings_of(tuning_with("p1", {{{{}, {}}}})),
              ElementsAre(HasSubstr("every trial diverged or failed")));
  EXPECT_THAT(warnings_of(tuning_with("p1", {{{0.4, {}}}})), ElementsAre());
}

// The files of tunings in a folder.
class ReadTuned : public ::testing::Test {
 protected:
  std::string write(const json& document) const { return folder_.write("c.json", document.dump()); }
  // The error for ssgd, behind the path.
  std::string refusal(const json& document, ExitCode code = ExitCode::data) const {
    const std::string path = write(document);
    const test::Failure failure = test::failure_of([&] { read_tuned(path, "ssgd"); });
    EXPECT_EQ(failure.code, code) << failure.message;
    return failure.message.substr(std::min(path.size() + 2, failure.message.size()));
  }

  const test::TemporaryFolder folder_;
  const Tuning tuning_ = tuning_with("p1", {{{0.4, {}}, {{}, {}}}, {{0.6, {}}, {0.7, 1.5}}});
};

TEST_F(ReadTuned, CopiesTheNoteThatWasWritten) {
  Tuning other = tuning_;
  other.algorithm = "asgd";
  const json document = tuning_json(std::vector{other, tuning_}, {"tune"});
  EXPECT_EQ(document["cost"],
            json({{"trials", 8}, {"samples_count", 800}, {"train_s", 16.0}, {"wall_s", 4.0}}));
  const json cell = read_tuned(write(document), "ssgd");
  EXPECT_EQ(cell["note"], tuning_.note);
  EXPECT_EQ(cell["config"], tuning_.config);
  EXPECT_EQ(cell["chosen"], json({{"learning_rate", 0.3}}));
}

TEST_F(ReadTuned, NamesWhatAFileLacks) {
  const json good = tuning_json({&tuning_, 1}, json::array());
  const std::vector<std::pair<std::string, std::function<void(json&)>>> damages = {
      {"found a file of another kind, expected a tuning", [](json& t) { t = json::array(); }},
      {"found a trace, expected a tuning", [](json& t) { t["kind"] = "trace"; }},
      {R"(schema_version: found "1.0", expected 2.0)",
       [](json& t) { t["schema_version"] = "1.0"; }},
      {"cells: found nothing, expected a list", [](json& t) { t.erase("cells"); }},
      {"cells[0]: note.grid: found 3, expected a list",
       [](json& t) { t["cells"][0]["note"]["grid"] = 3; }},
      {"cells[0]: config: found nothing, expected an object",
       [](json& t) { t["cells"][0].erase("config"); }},
      {"cells[0]: note.learning_rate: found nothing, expected a number",
       [](json& t) { t["cells"][0]["note"].erase("learning_rate"); }}};
  for (const auto& [message, damage] : damages) {
    json bad = good;
    damage(bad);
    EXPECT_EQ(refusal(bad), message);
  }
}

TEST_F(ReadTuned, RefusesWhatWasNotChosen) {
  const auto message = [&](const Tuning& tuning, int copies = 1) {
    const std::vector<Tuning> all(static_cast<std::size_t>(copies), tuning);
    return refusal(tuning_json(all, json::array()), ExitCode::usage);
  };
  Tuning other = tuning_;
  other.algorithm = "asgd";
  EXPECT_EQ(message(other), "found no tuning of ssgd, expected one of asgd");
  EXPECT_EQ(message(tuning_, 2), "found 2 tunings of ssgd, expected one");
  EXPECT_EQ(message(tuning_with("p1", {{{{}, {}}}})), "no trial of ssgd completed");
  other = tuning_;
  other.note = nullptr;
  EXPECT_EQ(message(other),
            "cells[0]: found a choice of other options, expected one of the learning rate alone");
}

}  // namespace
}  // namespace hetsgd
