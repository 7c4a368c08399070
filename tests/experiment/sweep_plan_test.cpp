#include "experiment/sweep_plan.hpp"

#include <cstring>

#include "experiment/spec_settings.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::Failure;
using test::failure_of;

constexpr const char* kHead = R"(
name = "t"
[settings]
train = "generate:tiny"
test = "generate:tiny"
epochs = 1
)";

// Specifications in a folder of their own.
class SweepPlanTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "t.toml") const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  SweepSpec spec(const std::string& text) const { return read_sweep_spec(write(kHead + text)); }
  std::vector<PlannedRun> final_runs(const std::string& text) const {
    const SweepSpec specification = spec(text);
    return SweepPlan(specification, false).preview_final_runs();
  }
  // The error message about `text`, without the folder's name at its front.
  Failure failure(const std::string& text) const {
    Failure found = failure_of([&] {
      const SweepSpec specification = read_sweep_spec(write(text));
      const SweepPlan plan(specification, false);
    });
    const std::string prefix = folder_.string() + "/";
    if (found.message.starts_with(prefix)) found.message.erase(0, prefix.size());
    return found;
  }

  const TemporaryFolder folder_;
};

std::set<std::uint64_t> ids_of(const std::vector<PlannedRun>& runs) {
  std::set<std::uint64_t> ids;
  for (const PlannedRun& run : runs) ids.insert(run.id);
  return ids;
}

TEST_F(SweepPlanTest, EveryDimensionMultiplies) {
  // setups x cases x parameters x zip x seeds = 2 x 2 x 3 x 2 x 4
  const auto runs = final_runs(R"(
[[setups]]
name = "a"
settings = {hidden = 8}
[[setups]]
name = "b"
settings = {hidden = 16}
[[cases]]
name = "bound"
settings = {algorithm = "ssp"}
[[cases]]
name = "free"
settings = {algorithm = "asgd"}
[parameters.momentum]
values = [0, 0.5, 0.9]
[[zip]]
batch_size = [16, 64]
learning_rate = [0.1, 0.4]
)");
  EXPECT_EQ(runs.size(), 2U * 2 * 3 * 2);  // one seed by default
  EXPECT_EQ(ids_of(runs).size(), runs.size());
}

// asgd has no staleness.
const std::string kStaleness = "[parameters.staleness]\nvalues = [1, 2, 4]\n";
const std::string kSspAndAsgd = R"(
[[cases]]
name = "ssp"
settings = {algorithm = "ssp"}
[[cases]]
name = "asgd"
settings = {algorithm = "asgd"}
)";

TEST_F(SweepPlanTest, OptionsThatTheAlgorithmLacksAreLeftOut) {
  const SweepSpec specification = spec(kStaleness + kSspAndAsgd);
  const SweepPlan plan(specification, false);
  EXPECT_EQ(plan.candidates(SweepStage::final, 0).size(), 3U);
  ASSERT_EQ(plan.candidates(SweepStage::final, 1).size(), 1U);
  EXPECT_TRUE(plan.candidates(SweepStage::final, 1)[0].point.empty());
}

// The same runs, whether methods are written as cases or as a list of algorithms.
TEST_F(SweepPlanTest, AListOfAlgorithmsIsAListOfCases) {
  const std::string tuned = std::string(R"(
[metric]
name = "p1"
[tuning.parameters.learning_rate]
values = [0.1, 1]
)") + kStaleness;
  const SweepSpec cases = spec(tuned + kSspAndAsgd);
  const SweepSpec list = spec(tuned + "[parameters.algorithm]\nvalues = [\"ssp\", \"asgd\"]\n");
  ASSERT_EQ(list.cases.size(), 2U);
  EXPECT_EQ(list.cases[1].name, "asgd");
  const SweepPlan first(cases, false), second(list, false);
  EXPECT_EQ(ids_of(first.trials()), ids_of(second.trials()));
  EXPECT_EQ(ids_of(first.preview_final_runs()), ids_of(second.preview_final_runs()));
  EXPECT_EQ(second.preview_final_runs().size(), 4U);
}

TEST_F(SweepPlanTest, ZippedListsAdvanceTogether) {
  const SweepSpec specification = spec(R"(
[[zip]]
batch_size = [16, 64]
learning_rate = [0.1, 0.4]
)");
  const SweepPlan plan(specification, false);
  const auto& candidates = plan.candidates(SweepStage::final, 0);
  ASSERT_EQ(candidates.size(), 2U);
  EXPECT_EQ(values_of(candidates[0].point), json({{"batch_size", 16}, {"learning_rate", 0.1}}));
  EXPECT_EQ(values_of(candidates[1].point), json({{"batch_size", 64}, {"learning_rate", 0.4}}));
}

TEST_F(SweepPlanTest, AnIdIsTheConfiguration) {
  const auto id = [&](const std::string& text) { return final_runs(text).front().id; };
  const std::uint64_t plain = id("");
  EXPECT_EQ(id("learning_rate = 1.0"), plain);  // the default
  EXPECT_EQ(id("host_threads = 1"), plain);     // how, not what
  EXPECT_EQ(id("time_limit = \"1h\""), plain);
  EXPECT_NE(id("learning_rate = 0.5"), plain);
  EXPECT_NE(id("straggler = [\"kind=constant,factor=2\"]"), plain);
}

TEST_F(SweepPlanTest, SeedsAreRepeats) {
  const std::string path = write(std::string("seeds = \"3:6\"") + kHead);
  const SweepSpec specification = read_sweep_spec(path);
  const SweepPlan plan(specification, false);
  const auto runs = plan.preview_final_runs();
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[3].seed, 6U);
  EXPECT_EQ(find_setting(plan.settings(runs[3]), "seed")->value, 6);
  EXPECT_EQ(ids_of(runs).size(), 4U);
}

TEST_F(SweepPlanTest, InterleavedSeedsAreOutermost) {
  const std::string text = std::string("seeds = [1, 2]\ninterleave = true") + kHead +
                           "[parameters.momentum]\nvalues = [0, 0.5]\n";
  const SweepSpec specification = read_sweep_spec(write(text));
  std::vector<std::uint64_t> seeds;
  for (const PlannedRun& run : SweepPlan(specification, false).preview_final_runs()) {
    seeds.push_back(run.seed);
  }
  EXPECT_THAT(seeds, ElementsAre(1, 1, 2, 2));
}

TEST_F(SweepPlanTest, OnlyRestrictsTheProduct) {
  const SweepSpec specification = spec(R"(
[[only]]
setup = "a"
cases = ["y"]
[[only]]
setup = "b"
[[setups]]
name = "a"
[[setups]]
name = "b"
settings = {hidden = 8}
[[cases]]
name = "x"
[[cases]]
name = "y"
settings = {momentum = 0.5}
)");
  ASSERT_EQ(specification.cells.size(), 3U);
  EXPECT_EQ(specification.title(0), "a, y");
  EXPECT_EQ(specification.title(1), "b, x");
}

constexpr const char* kTuned = R"(
[metric]
name = "p1"
goal = "time_to_target"
target = 0.5
[tuning]
epochs = 2
seeds = [101, 102]
[tuning.parameters.learning_rate]
from = 0.01
to = 1
count = 5
[[cases]]
name = "ssgd"
settings = {algorithm = "ssgd"}
[[cases]]
name = "asgd"
settings = {algorithm = "asgd"}
rate_from = {case = "ssgd", factor = 4}
)";

TEST_F(SweepPlanTest, TargetsAreSharesNotPercent) {
  const std::string tuned = kTuned;
  const auto refusal = [&](const char* was, const char* is) {
    std::string text = tuned;
    return test::usage_error_of([&] { spec(text.replace(text.find(was), std::strlen(was), is)); });
  };
  EXPECT_THAT(refusal("target = 0.5", "target = 50"),
              testing::HasSubstr("target: found \"p1>=50\", expected p1 from 0 to 1"));
  EXPECT_THAT(refusal("[tuning]", "[tuning]\ntarget = 40"),
              testing::HasSubstr("tuning.target: found \"p1>=40\""));
}

TEST_F(SweepPlanTest, TrialsMeasureHeldOutRows) {
  const SweepSpec specification = spec(kTuned);
  SweepPlan plan(specification, false);
  EXPECT_EQ(plan.trials().size(), 5U * 2);  // the other case is not tuned
  const auto settings = plan.settings(plan.trials()[0]);
  EXPECT_EQ(find_setting(settings, "test"), nullptr);
  EXPECT_EQ(find_setting(settings, "validation")->value, 0.1);
  EXPECT_EQ(find_setting(settings, "epochs")->value, 2);
  EXPECT_EQ(find_setting(settings, "seed")->value, 101);

  Choices choices(2);
  choices[0] = plan.candidates(SweepStage::tuning, 0)[2].point;
  EXPECT_EQ(choices[0]->front().value, 0.1);
  plan.plan_final_runs(choices);
  ASSERT_EQ(plan.final_runs().size(), 2U);
  const auto own = plan.settings(plan.final_runs()[0]), other = plan.settings(plan.final_runs()[1]);
  EXPECT_EQ(find_setting(own, "learning_rate")->value, 0.1);
  EXPECT_EQ(find_setting(own, "target")->value, json({"p1>=0.5"}));
  EXPECT_EQ(find_setting(own, "test")->value, "generate:tiny");
  EXPECT_EQ(find_setting(other, "learning_rate")->value, 0.4);
}

// Rates .01 .. 1 with a ratio of sqrt(10), and two values beyond their ends at most.
TEST_F(SweepPlanTest, ATuningIsWidenedBeyondItsBestValue) {
  std::string text = kTuned;
  text.replace(text.find("count = 5"), 9, "count = 5\nwiden = 2");
  const SweepSpec specification = spec(text);
  SweepPlan plan(specification, false);
  const auto rates = [&] {
    std::vector<double> values;
    for (const Candidate& each : plan.candidates(SweepStage::tuning, 0)) {
      values.push_back(each.point.front().value);
    }
    return values;
  };
  EXPECT_FALSE(plan.widen(0, 2));  // within
  EXPECT_EQ(plan.trials().size(), 5U * 2);
  EXPECT_TRUE(plan.widen(0, 4));
  EXPECT_TRUE(plan.widen(0, 0));
  EXPECT_EQ(rates(), (std::vector<double>{0.01, 0.0316, 0.1, 0.316, 1, 3.16, 0.00316}));
  EXPECT_EQ(plan.trials().size(), 7U * 2);
  EXPECT_EQ(find_setting(plan.settings(plan.trials().back()), "learning_rate")->value, 0.00316);
  EXPECT_FALSE(plan.widen(0, 5));  // the two are spent
}

TEST_F(SweepPlanTest, ASetupHasAMetricAndATuningOfItsOwn) {
  const SweepSpec specification = spec(std::string(kTuned) + R"(
[[setups]]
name = "a"
[[setups]]
name = "b"
[setups.metric]
target = 0.7
[setups.tuning]
seeds = [1]
[setups.tuning.parameters.learning_rate]
values = [1, 2]
)");
  EXPECT_EQ(specification.setups[0].goal->text(), "p1>=0.5");
  EXPECT_EQ(specification.setups[1].goal->text(), "p1>=0.7");
  EXPECT_EQ(specification.setups[0].tuning->space.size(), 5);
  EXPECT_EQ(specification.setups[1].tuning->space.size(), 2);
  EXPECT_THAT(specification.setups[1].tuning->seeds, ElementsAre(1));
}

TEST_F(SweepPlanTest, JsonIsTheSameTree) {
  const std::string path = write(
      R"({"name": "t", "settings": {"train": "generate:tiny", "test": "generate:tiny",
          "epochs": 1}})",
      "t.json");
  const SweepSpec specification = read_sweep_spec(path);
  EXPECT_EQ(SweepPlan(specification, false).preview_final_runs().front().id,
            final_runs("").front().id);
}

TEST_F(SweepPlanTest, MistakesHaveTheirLine) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"name = \"T\"", "t.toml:1: name: found \"T\", expected small letters", ""},
      {"name = \"t\"\nseed = 1", "t.toml:2: found key \"seed\", expected",
       "did you mean \"seeds\"?"},
      {"name = \"t\"\n[settings]\nepocs = 1", "t.toml:3: settings.epocs: unknown option",
       "did you mean \"epochs\"?"},
      {"name = \"t\"\n[settings]\nseed = 1", "t.toml:3: settings.seed: not an option", "seeds"},
      {"name = \"t\"\n[settings]\ntrain = \"generate:tiny\"\nepochs = -1",
       "t.toml:4: settings.epochs: found \"-1\", expected a number from 0", ""},
      {"name = \"t\"\nseeds = \"5:1\"", "t.toml:2: seeds: found \"5:1\", expected FROM:TO", ""},
      {"name = \"t\"\n[parameters.staleness]\nvalues = []",
       "t.toml:3: parameters.staleness.values: found [], expected a list with at least one", ""},
      {"name = \"t\"\n[parameters.momentum]\nmin = 0\nmax = 1",
       "t.toml:2: parameters.momentum: found a range, expected values", "[search]"},
      {"name = \"t\"\n[[zip]]\nbatch_size = [1, 2]\nlearning_rate = [1]",
       "t.toml:4: zip[0].learning_rate: found [1], expected 2 values", ""},
      {"name = \"t\"\n[metric]\nname = \"p1\"\ngoal = \"minimize\"",
       "t.toml:4: metric.goal: found \"minimize\", expected maximize", ""},
      {"name = \"t\"\n[settings]\ntrain = \"${HETSGD_NOT_THERE}/x\"",
       "t.toml:3: settings.train: found ${HETSGD_NOT_THERE}, which is not set", "export"},
      {"name = \"t\"\n[[cases]]\nname = \"a\"\nrate_from = {case = \"b\"}",
       "t.toml:4: cases[0].rate_from: found \"b\", expected a", ""},
      {"name = \"t\"\n[settings]\nepochs = 1\nlearning_rate = []",
       "t.toml:4: settings.learning_rate: found", ""},
      {"name = \"t\"\n[settings]\ntrain = \"generate:tiny\"\nepochs = "
       "1\n[parameters.learning_rate]\nvalues = [1, []]",
       "t.toml:5: parameters.learning_rate: found", ""},
      {"name = \"t\"\n[[cases]]\nname = \"a\"\n[[only]]\nsetup = \"x\"",
       "t.toml:5: only[0].setup: found \"x\", but", ""},
      {"name = \"t\"\nx = [", "t.toml:2:", ""}};
  for (const auto& [text, message, hint] : cases) {
    const Failure found = failure(text);
    EXPECT_THAT(found.message, ::testing::StartsWith(message));
    EXPECT_THAT(found.hint, HasSubstr(hint));
  }
}

// Options by which one call of the program writes or shows something are refused wherever the runs
// of a sweep could share them.
TEST_F(SweepPlanTest, NoOptionOfOneCallIsSharedByRuns) {
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  std::vector<Option> all = set.options();
  for (const ForeignOption& foreign : options_of_all_algorithms()) all.push_back(foreign.option);
  for (const ForeignOption& foreign : options_of_all_models()) all.push_back(foreign.option);
  std::set<std::string> seen;
  for (const Option& option : all) {
    const bool writes =
        option.files.role == FileRole::written || option.files.role == FileRole::appended;
    ASSERT_TRUE(option.of_call || !writes) << option.name;
    if (!option.of_call) continue;
    seen.insert(option.name);
    write(json{{option.name, "x"}}.dump(), "config.json");
    const std::string line = option.name + " = \"x\"\n";
    for (const std::string& text :
         {"[settings]\n" + line, std::string("[settings]\nconfig = \"config.json\"\n"),
          "[[setups]]\nname = \"a\"\n[setups.settings]\n" + line,
          "[[cases]]\nname = \"a\"\n[cases.settings]\n" + line, "[tuning.settings]\n" + line,
          "[parameters]\n" + option.name + " = {values = [\"x\"]}\n",
          "[[zip]]\n" + option.name + " = [\"x\"]\n",
          "[tuning.parameters]\n" + option.name + " = {values = [\"x\"]}\n"}) {
      const Failure found = failure("name = \"t\"\n" + text);
      EXPECT_EQ(found.code, ExitCode::usage) << text << found.message;
      EXPECT_THAT(found.message, HasSubstr(option.name)) << text;
      EXPECT_THAT(found.message, HasSubstr("not an option of a sweep's runs")) << text;
    }
  }
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"output", "trace", "mllog", "tensorboard", "quiet"}));
}

TEST_F(SweepPlanTest, WhatExcludesEachOtherIsRefusedInOneTable) {
  constexpr const char* kBoth = "epochs = 1\nmax_samples = 64\n";
  for (const std::string& text :
       {std::string("[settings]\n") + kBoth,
        "[[cases]]\nname = \"a\"\n[cases.settings]\n" + std::string(kBoth),
        std::string("[settings]\ntest = \"x\"\nvalidation = 0.5\n"),
        std::string("[metric]\nname = \"p1\"\n[tuning]\n") + kBoth +
            "[tuning.parameters.learning_rate]\nvalues = [1]\n",
        std::string("[parameters]\nepochs = {values = [1]}\nmax_samples = {values = [1]}\n")}) {
    const Failure found = failure("name = \"t\"\n" + text);
    EXPECT_EQ(found.code, ExitCode::usage) << text;
    EXPECT_THAT(found.message, HasSubstr("expected one of the two")) << text;
  }
}

// A result's configuration names every option; those that were not given exclude nothing.
TEST_F(SweepPlanTest, TheConfigurationOfAResultKeepsItsBudget) {
  write(R"({"epochs": 3.0, "max_samples": 0, "test": "generate:tiny",
                                     "train": "generate:tiny", "validation": 0.0})",
        "config.json");
  const SweepSpec specification =
      read_sweep_spec(write("name = \"t\"\n[settings]\nconfig = \"config.json\"\n"));
  const SweepPlan plan(specification, false);
  const std::vector<Setting> settings = plan.settings(plan.preview_final_runs().front());
  EXPECT_EQ(find_setting(settings, "epochs")->value, 3.0);
  EXPECT_EQ(find_setting(settings, "test")->value, "generate:tiny");
  // A case's budget replaces that of all.
  const SweepSpec other = spec("[[cases]]\nname = \"a\"\nsettings = {max_samples = 64}\n");
  const SweepPlan with_samples(other, false);
  EXPECT_EQ(
      find_setting(with_samples.settings(with_samples.preview_final_runs().front()), "epochs"),
      nullptr);
}

TEST_F(SweepPlanTest, OfAListForOneValueTheLastCounts) {
  const std::vector<Setting> settings = {{"train", "generate:tiny", OptionSource::flag, ""},
                                         {"learning_rate", {0.1, 0.5}, OptionSource::flag, ""}};
  EXPECT_THAT(train_arguments(settings), ::testing::Contains("--learning-rate=0.5"));
}

TEST_F(SweepPlanTest, DottedKeysHaveALimit) {
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += " .\"b.c\"";
  for (const std::string& text : {deep + " = 1", "[" + deep + "]", "x = {" + deep + " = 1}"}) {
    const Failure found = failure("# \"\nname = 't'\nabout = \"\"\"\n\"\"\"\n" + text);
    EXPECT_EQ(found.code, ExitCode::data);
    EXPECT_THAT(found.message, ::testing::StartsWith("t.toml:5: found a key of more than"));
  }
  const std::string words(1000, '.');
  EXPECT_EQ(read_sweep_spec(write("about = \"" + words + "\"" + kHead)).name, "t");
}

TEST_F(SweepPlanTest, AMillionRunsAreAskedFor) {
  const std::string text =
      std::string("seeds = \"1:1000000\"") + kHead + "[parameters.momentum]\nvalues = [0, 0.5]\n";
  const Failure found = failure(text);
  EXPECT_EQ(found.message, "t.toml: found 2e+06 runs, expected at most a million");
  EXPECT_THAT(found.hint, HasSubstr("--yes"));
}

}  // namespace
}  // namespace hetsgd
