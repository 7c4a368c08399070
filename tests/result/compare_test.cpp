#include "result/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "result/loaded_results.hpp"
#include "result/report.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::json_of;
using test::record_of;
using test::result_of;
using test::tuning_of;
using ::testing::HasSubstr;

constexpr double kMissed = std::numeric_limits<double>::infinity();

TEST(Compare, GroupsSeedsAndTakesMedians) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    results.push_back(result_of("a" + std::to_string(seed), "ssgd", seed, 4));
    results.push_back(
        result_of("b" + std::to_string(seed), "adaptive", seed, seed < 5 ? 1 + seed / 2 : 0));
  }
  const Comparison comparison = compare(results, {});
  ASSERT_EQ(comparison.groups.size(), 2u);
  const GroupRow& adaptive = comparison.groups[0];  // the faster one
  const GroupRow& reference = comparison.groups[1];
  EXPECT_TRUE(reference.reference);
  EXPECT_EQ(reference.label, "ssgd");
  EXPECT_EQ(reference.runs.size(), 5u);
  EXPECT_EQ(reference.targets[0].ratio, 1);
  // times 1, 2, 2, 3, missed
  EXPECT_EQ(adaptive.targets[0].reached, 4u);
  EXPECT_EQ(adaptive.targets[0].time_s.median, 2);
  EXPECT_EQ(adaptive.targets[0].time_s.high, kMissed);
  EXPECT_EQ(adaptive.targets[0].samples, 200);
  EXPECT_EQ(adaptive.targets[0].updates, 20);
  EXPECT_EQ(adaptive.targets[0].ratio, 0.5);
  EXPECT_EQ(adaptive.samples_per_s.median, 100);
  EXPECT_EQ(comparison.worst_ratio(), 0.5);
  EXPECT_THAT(comparison.warnings,
              ::testing::ElementsAre(HasSubstr("p1>=0.5 is reached within the first 20 evaluations "
                                               "(adaptive 2, ssgd 4): its times are coarse"),
                                     HasSubstr("no learning rate was tuned")));
}

// Of two real runs that reach the target after 4 s of training, one has loaded for 1 s and one for
// 9 s, and each evaluation, the initial one too, has taken 2 s.
TEST(Compare, TimesAreThoseOfTheChosenClock) {
  const auto real = [](const std::string& path, double load_s) {
    Record record = record_of({0.1, 0.1, 0.1, 0.1, 0.6, 0.6, 0.6});
    record.config["algorithm"] = path;
    record.virtual_time = false;
    record.phases.load_s = record.phases.total_s = load_s;
    for (std::size_t i = 0; i < record.curve.size(); ++i) {
      record.curve[i].prepare = Seconds(0.5 * static_cast<double>(i));
      record.curve[i].wall_s =
          load_s + static_cast<double>(i) * 1.5 + 2 * static_cast<double>(i + 1);
    }
    return LoadedResult{path, json_of(record)};
  };
  const std::vector<LoadedResult> results = {real("a", 1), real("b", 9)};
  const auto times = [&](RunClock clock) {
    const Comparison comparison = compare(results, {.clock = clock});
    EXPECT_EQ(comparison_json(comparison)["clock"], to_string(clock));
    return std::pair(comparison.runs[0].targets[0].time_s, comparison.runs[1].targets[0].time_s);
  };
  EXPECT_EQ(times(RunClock::training), std::pair(4.0, 4.0));
  EXPECT_EQ(times(RunClock::algoperf), std::pair(6.0, 6.0));
  EXPECT_EQ(times(RunClock::mlperf), std::pair(17.0, 25.0));
  EXPECT_EQ(times(RunClock::dawnbench), std::pair(5.0, 13.0));
  EXPECT_EQ(
      compare({result_of("c", "c", 1, 4)}, {.clock = RunClock::algoperf}).runs[0].targets[0].time_s,
      4.0);
  try {
    compare({result_of("c.json", "c", 1, 4)}, {.clock = RunClock::mlperf});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--clock: found mlperf, which c.json does not have (simulated: its "
                 "time is not the host's)");
  }
}

// 4 s and 400 samples against 2 s and 100 samples: half the rate, a quarter of the samples.
TEST(Compare, SpeedUpIsStatisticalTimesHardware) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    results.push_back(result_of("a" + std::to_string(seed), "ssgd", seed, 4));
    results.push_back(result_of("b" + std::to_string(seed), "asgd", seed, 1));
    for (json& point : results.back().json["curve"]) {
      point["time_s"] = 2 * point["time_s"].get<double>();
    }
  }
  const Comparison comparison = compare(results, {});
  const GroupTarget& target = comparison.groups[0].targets[0];
  EXPECT_EQ(comparison.groups[0].label, "asgd");
  EXPECT_EQ(target.speedup.median, 2);
  EXPECT_EQ(target.speedup.low, 2);
  EXPECT_EQ(target.statistical, 4);
  EXPECT_EQ(target.hardware, 0.5);
  // five equal times against five others: all ties, by the normal approximation
  EXPECT_NEAR(target.p_value, 0.003976752, 1e-8);
  EXPECT_TRUE(std::isnan(comparison.groups[1].targets[0].p_value));
  EXPECT_EQ(comparison.groups[1].targets[0].statistical, 1);
}

// A quarter of the samples, an eighth of the updates, half of both per second, equal final values.
TEST(Compare, RelatesSamplesUpdatesThroughputAndFinalValuesToTheReference) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    results.push_back(result_of("a" + std::to_string(seed), "ssgd", seed, 4));
    results.push_back(result_of("b" + std::to_string(seed), "asgd", seed, 1));
    results.back().json["summary"]["samples_per_s"] = 50;
    for (json& point : results.back().json["curve"]) {
      point["updates"] = point["updates"].get<double>() / 2;
    }
  }
  const Comparison comparison = compare(results, {});
  const GroupRow& asgd = comparison.groups[0];
  const GroupRow& reference = comparison.groups[1];
  ASSERT_EQ(asgd.label, "asgd");
  const GroupTarget& target = asgd.targets[0];
  EXPECT_EQ(target.samples_relation.ratio.median, 0.25);
  EXPECT_EQ(target.samples_relation.ratio.low, 0.25);
  EXPECT_EQ(target.samples_relation.ratio.high, 0.25);
  EXPECT_NEAR(target.samples_relation.p_value, 0.003976752, 1e-8);  // as of five times above
  EXPECT_EQ(target.updates_relation.ratio.median, 0.125);
  EXPECT_EQ(target.first_crossing_relation.ratio.median, 0.25);
  EXPECT_EQ(asgd.samples_per_s_relation.ratio.median, 0.5);
  EXPECT_EQ(asgd.updates_per_s_relation.ratio.median, 0.5);
  EXPECT_EQ(asgd.final_relation.ratio.median, 1);
  EXPECT_EQ(asgd.final_relation.p_value, 1);
  EXPECT_EQ(reference.final_relation.ratio.median, 1);
  EXPECT_TRUE(std::isnan(reference.final_relation.p_value));
  EXPECT_TRUE(std::isnan(reference.targets[0].samples_relation.p_value));
  const json row = comparison_json(comparison)["groups"][1];
  EXPECT_EQ(row["targets"][0]["updates_relation"]["ratio"]["high"], 0.125);
  EXPECT_EQ(row["final_relation"]["p_value"], 1);
}

// Who misses the target needs infinitely many samples; a run without a throughput leaves no ratio.
TEST(Compare, ARelationOfMissedOrUnknownValues) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "asgd", 1, 0)};
  results[1].json["summary"]["samples_per_s"] = nullptr;
  const Comparison comparison = compare(results, {});
  const GroupRow& asgd = comparison.groups[1];
  ASSERT_EQ(asgd.label, "asgd");
  EXPECT_EQ(asgd.targets[0].samples_relation.ratio.median, kMissed);
  EXPECT_TRUE(std::isnan(asgd.samples_per_s_relation.ratio.median));
  EXPECT_TRUE(std::isnan(asgd.samples_per_s_relation.p_value));
}

TEST(Compare, SortsByTimeThenByFinalValue) {
  std::vector<LoadedResult> results = {
      result_of("never", "sgd", 1, 0), result_of("late", "ssgd", 1, 4),
      result_of("better", "asgd", 1, 0), result_of("soon", "elastic", 1, 1)};
  results[2].json["summary"]["final"]["p1"] = 0.4;
  const Comparison comparison = compare(results, {});
  std::vector<std::string> labels;
  for (const GroupRow& group : comparison.groups) labels.push_back(group.label);
  EXPECT_THAT(labels, ::testing::ElementsAre("elastic", "ssgd", "asgd", "sgd"));
  EXPECT_TRUE(comparison.groups[1].reference);  // the first file that reached the target
}

TEST(Compare, AReferenceThatMissedTheTargetIsReplaced) {
  const std::vector<LoadedResult> results = {
      result_of("a", "ssgd", 1, 0), result_of("b", "asgd", 1, 4), result_of("c", "elastic", 1, 2)};
  const Comparison comparison = compare(results, {});
  EXPECT_EQ(comparison.reference().label, "asgd");
  EXPECT_EQ(comparison.groups[0].targets[0].speedup.median, 2);  // elastic
  EXPECT_THAT(comparison.warnings,
              ::testing::Contains("the reference is asgd: ssgd, which comes first, missed "
                                  "p1>=0.5 (the median of its runs); --reference names another"));
  EXPECT_EQ(compare(results, {.targets = {}, .reference = "ssgd"}).reference().label, "ssgd");
  // nobody reached it: the first file, without a word
  const Comparison missed = compare({results[0]}, {});
  EXPECT_EQ(missed.reference().label, "ssgd");
  EXPECT_THAT(::testing::PrintToString(missed.warnings), ::testing::Not(HasSubstr("reference")));
}

// A run without a finite metric counts as the worst; it neither stops the comparison nor hides the
// other seeds.
TEST(Compare, ADivergedRunIsTheWorstRun) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    results.push_back(result_of("a" + std::to_string(seed), "ssgd", seed, seed == 3 ? 0 : 4));
  }
  results[2].json["status"] = "diverged";
  results[2].json["summary"]["final"] = {{"test_loss", nullptr}};
  const Comparison comparison = compare(results, {});
  EXPECT_EQ(comparison.groups[0].diverged, 1u);
  EXPECT_EQ(comparison.groups[0].targets[0].reached, 4u);
  EXPECT_EQ(comparison.groups[0].final_value.median, 0.6);
  EXPECT_EQ(comparison.groups[0].final_value.low, -kMissed);
  EXPECT_THAT(comparison.warnings, ::testing::Contains("ssgd: 1 of 5 runs diverged"));
}

TEST(Compare, WarnsOfUnequalTuning) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "asgd", 1, 4),
                                       result_of("c", "sgd", 1, 4)};
  const auto warnings = [&] { return ::testing::PrintToString(compare(results, {}).warnings); };
  EXPECT_THAT(warnings(), HasSubstr("no learning rate was tuned: the order of the algorithms"));
  for (LoadedResult& result : results) result.json["tuning"] = tuning_of(3);
  EXPECT_THAT(warnings(), ::testing::Not(HasSubstr("tuned")));
  results[2].json["tuning"] = tuning_of(4);
  EXPECT_THAT(warnings(),
              HasSubstr("learning rates were tuned with unequal budgets: asgd, ssgd (3 trials for "
                        "p1 on 200 rows, grid 0.5,1.0,1.5); sgd (4 trials for p1 on 200 rows, "
                        "grid 0.5,1.0,1.5,2.0)"));
  results[2].json["tuning"] = nullptr;
  EXPECT_THAT(warnings(), HasSubstr("; sgd (not tuned)"));
  results[1].json["tuning"]["edge_of_grid"] = true;
  EXPECT_THAT(warnings(), HasSubstr("asgd: its learning rate 1.0 lies at the edge of the grid"));
  results[1].json["tuning"]["differs"] = {"workers", "speed"};
  EXPECT_THAT(warnings(),
              HasSubstr("asgd: tuned under other options than it ran with: workers, speed"));
}

TEST(Compare, AMissedTargetIsInfinitelySlow) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                             result_of("b", "adaptive", 1, 0)};
  EXPECT_EQ(compare(results, {}).worst_ratio(), kMissed);
  const Comparison turned = compare(results, {.targets = {}, .reference = "b"});
  EXPECT_EQ(turned.groups[0].targets[0].ratio, 0);
  EXPECT_EQ(turned.groups[0].targets[0].speedup.median, kMissed);
  EXPECT_TRUE(std::isnan(turned.groups[0].targets[0].hardware));
  EXPECT_TRUE(std::isnan(turned.groups[1].targets[0].ratio));
  EXPECT_EQ(turned.worst_ratio(), 0);
}

TEST(Compare, TargetsOfTheCallReplaceThoseOfTheFiles) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4)};
  const Comparison comparison =
      compare(results, {.targets = {{"p1", true, 0.05}, {"test_loss", false, 1}}, .reference = ""});
  EXPECT_EQ(comparison.runs[0].targets[0].time_s, 0);
  EXPECT_EQ(comparison.runs[0].targets[1].time_s, kMissed);
}

TEST(Compare, OneAlgorithmWithTwoOptionsIsTwoGroups) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 1, 4)};
  results[1].json["config"]["learning_rate"] = 0.25;
  const Comparison comparison = compare(results, {});
  ASSERT_EQ(comparison.groups.size(), 2u);
  EXPECT_EQ(comparison.groups[0].label, "ssgd (learning_rate=0.5)");
  EXPECT_EQ(comparison.groups[1].label, "ssgd (learning_rate=0.25)");
}

// A target is read off the curve; where it ends runs, they are other runs.
TEST(Compare, TargetsSeparateWhereTheyEndRuns) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 2, 4)};
  results[1].json["config"]["target"] = {"p1>=0.7"};
  EXPECT_EQ(compare(results, {}).groups.size(), 1U);
  for (LoadedResult& each : results) each.json["config"]["stop_at_target"] = true;
  EXPECT_EQ(compare(results, {}).groups.size(), 2U);
}

TEST(Compare, PathsOfTheSameDataDoNotSeparate) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 2, 4)};
  results[1].json["config"]["train"] = "/elsewhere/train.txt";
  EXPECT_EQ(compare(results, {}).groups.size(), 1u);
}

TEST(Compare, WarnsOfFewSeedsOtherWorkloadsAndOpenRuns) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                       result_of("b", "adaptive", 1, 4),
                                       result_of("c", "adaptive", 1, 4)};
  results[1].json["dataset"]["train"]["content_hash"] = "xxh3:00000000000000ff";
  results[2].json["status"] = "aborted";
  const std::string warnings = ::testing::PrintToString(compare(results, {}).warnings);
  EXPECT_THAT(warnings, HasSubstr("different workloads: a and b differ in the training data"));
  EXPECT_THAT(warnings, HasSubstr("fewer than 5 seeds (ssgd 1,"));
  EXPECT_THAT(warnings, HasSubstr("c: status aborted"));
}

// Eight samples a step against sixteen, under one --batch-size; what a method changes in the course of
// a run, and what was given by name, is its own affair.
TEST(Compare, WarnsWhereStepsHaveOtherNumbersOfSamplesUnasked) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "asgd", 1, 4)};
  for (LoadedResult& each : results) {
    each.json["config"]["batch_size"] = 16;
    each.json["events"] = json::array();
    for (json& worker : each.json["workers"]) {
      worker["steps"] = worker["samples"].get<int>() / (&each == &results[0] ? 8 : 16);
    }
  }
  const auto warnings = [&] { return ::testing::PrintToString(compare(results, {}).warnings); };
  EXPECT_THAT(warnings(), HasSubstr("samples of a worker's step"));
  EXPECT_THAT(warnings(), ::testing::ContainsRegex("8[.0-9]*: ssgd; 16[.0-9]*: asgd"));
  std::vector<LoadedResult> adaptive = results;
  adaptive[0].json["events"] = {{{"type", "merge"}, {"batch_size", {16, 8}}}};
  EXPECT_THAT(::testing::PrintToString(compare(adaptive, {}).warnings),
              ::testing::Not(HasSubstr("worker's step")));
  results[0].json["config"]["batch_size"] = 8;
  EXPECT_THAT(warnings(), ::testing::Not(HasSubstr("worker's step")));
}

TEST(Compare, WarnsOfLoadedHosts) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "asgd", 1, 4)};
  const auto warnings = [&] { return ::testing::PrintToString(compare(results, {}).warnings); };
  json& load = results[1].json["environment"]["load"];
  load = {{"start", 0.0}, {"end", nullptr}, {"idle_cores", 0}};
  EXPECT_TRUE(validate_result(results[1].json).empty());
  EXPECT_THAT(warnings(), ::testing::Not(HasSubstr("other programs")));
  load["end"] = 3.5;
  EXPECT_THAT(warnings(), HasSubstr("other programs took cores from 1 of 2 runs (b)"));
}

TEST(Compare, WarnsWhereSomeAreChargedForStaging) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "rna", 1, 4)};
  results[1].json["config"]["staging"] = true;
  const auto warnings = [&] { return ::testing::PrintToString(compare(results, {}).warnings); };
  EXPECT_THAT(warnings(), HasSubstr("only rna is charged"));
  results[1].json["config"]["staging"] = false;
  EXPECT_THAT(warnings(), ::testing::Not(HasSubstr("staging")));
}

TEST(Compare, AnAlgorithmWithOneGroupNamesTheReference) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "asgd", 1, 4),
                                       result_of("c", "ssgd", 1, 4)};
  EXPECT_EQ(compare(results, {.targets = {}, .reference = "asgd"}).reference().label, "asgd");
  EXPECT_EQ(compare(results, {.targets = {}, .reference = "c"}).reference().label, "ssgd");
  results[0].json["config"]["batch_size"] = 5;
  results[2].json["config"]["batch_size"] = 7;
  EXPECT_THROW(compare(results, {.targets = {}, .reference = "ssgd"}), Error);
}

// Options may come from any program: their types are looked at, never relied on.
TEST(Compare, AnOptionOfAnyTypeIsReadOrRefused) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                             result_of("b", "asgd", 1, 4)};
  json config = results[0].json["config"];
  for (const char* name : {"stop_at_target", "target", "batch_size", "plugin", "per_worker_batch",
                           "staging", "speed", "mega_batch", "evaluate_every"}) {
    config[name] = nullptr;
  }
  for (const auto& [name, value] : config.items()) {
    for (const json& odd : {json(nullptr), json(3), json(-1), json(0.5), json("text"), json(true),
                            json::array({1}), json{{"a", 1}}}) {
      std::vector<LoadedResult> changed = results;
      changed[0].json["config"][name] = odd;
      if (!validate_result(changed[0].json).empty()) continue;
      EXPECT_NO_THROW(compare(changed, {})) << name << " " << odd;
      EXPECT_NO_THROW(report_data(changed, {})) << name << " " << odd;
    }
  }
}

// Two cases of a sweep with one algorithm, one of them with two groups.
std::vector<LoadedResult> cases_of_a_sweep() {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 1, 2),
                                       result_of("c", "ssgd", 1, 3), result_of("d", "asgd", 1, 3)};
  const std::vector<std::string> names = {"mean", "adasum", "adasum", "ssgd"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].case_name = names[i];
    results[i].json["config"]["bucket"] = i;
  }
  return results;
}

TEST(Compare, GroupsAreCalledByTheirCases) {
  const Comparison comparison = compare(cases_of_a_sweep(), {});
  std::vector<std::string> labels;
  for (const RunRow& run : comparison.runs) labels.push_back(run.label);
  EXPECT_THAT(labels,
              ::testing::ElementsAre("mean", "adasum (bucket=1)", "adasum (bucket=2)", "ssgd"));
  EXPECT_EQ(comparison.reference().label, "mean");  // the first one
}

TEST(Compare, AReferenceIsALabelThenACaseThenAnAlgorithm) {
  const std::vector<LoadedResult> results = cases_of_a_sweep();
  const auto reference = [&](const std::string& name) {
    return compare(results, {.targets = {}, .reference = name}).reference().label;
  };
  EXPECT_EQ(reference("mean"), "mean");
  EXPECT_EQ(reference("ssgd"), "ssgd");  // the case, whose algorithm is another one
  EXPECT_EQ(reference("asgd"), "ssgd");
  EXPECT_EQ(reference("adasum (bucket=2)"), "adasum (bucket=2)");
  try {
    reference("adasum");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.hint(), HasSubstr("\"adasum (bucket=1)\", \"adasum (bucket=2)\""));
  }
  try {
    reference("elastic");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), HasSubstr("\"mean\""));
  }
}

TEST(Compare, TheGateTakesTheFirstResultAlsoWhereItMissed) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 0),
                                             result_of("b", "asgd", 1, 4)};
  EXPECT_EQ(compare(results, {}).reference().label, "asgd");
  EXPECT_EQ(compare(results, {.first_is_reference = true}).reference().label, "ssgd");
}

TEST(Compare, UnknownReferenceAndNoFilesAreUsageErrors) {
  EXPECT_THROW(compare({}, {}), Error);
  EXPECT_THROW(compare({result_of("a", "ssgd", 1, 4)}, {.targets = {}, .reference = "x"}), Error);
}

// A time is exact to the gap before the evaluation that reached the target: here one second.
TEST(Compare, ATimeHasTheResolutionOfTheEvaluations) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 2, 3),
                                       result_of("c", "ssgd", 3, 0)};
  results[0].json["curve"][3]["time_s"] = 2.25;
  const Comparison comparison = compare(results, {});
  EXPECT_EQ(comparison.runs[0].targets[0].evaluation, 4);
  EXPECT_EQ(comparison.runs[0].targets[0].resolution_s, 1.75);
  EXPECT_EQ(comparison.runs[2].targets[0].evaluation, kMissed);
  EXPECT_TRUE(std::isnan(comparison.runs[2].targets[0].resolution_s));
  EXPECT_EQ(comparison.groups[0].targets[0].evaluation, 4);  // of 4, 3 and missed
  EXPECT_EQ(comparison.groups[0].targets[0].resolution_s, 1.75);
  EXPECT_THAT(
      groups_report(comparison, TableFormat::text),
      HasSubstr("\np1>=0.5 is held from evaluation 4 on; a time is exact to the gap before it, "
                "1.75 s.\n"));
}

// The first crossing is a figure of its own, and a final value below the target is said.
TEST(Compare, ACrossingThatIsLostIsNoTimeToTheTarget) {
  Record record = record_of({0.1, 0.6, 0.1, 0.1, 0.2, 0.1, 0.1}, 1);
  record.config["algorithm"] = "elastic";
  const Comparison comparison = compare({result_of("a", "ssgd", 1, 4), {"b", json_of(record)}},
                                        {.targets = {{"p1", true, 0.5}}});
  const GroupTarget& lost = comparison.groups[1].targets[0];
  EXPECT_EQ(lost.reached, 0U);
  EXPECT_EQ(lost.time_s.median, kMissed);
  EXPECT_EQ(lost.first_crossing_s.median, 1);
  EXPECT_EQ(lost.misses_at_end, 1U);
  EXPECT_THAT(testing::PrintToString(comparison.warnings),
              HasSubstr("elastic: the final value misses p1>=0.5 in 1 of 1 runs that crossed it"));
}

// Three comparisons with the reference: the correction multiplies the smallest p-value by 3.
TEST(Compare, PValuesAreCorrectedForSeveralComparisons) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const auto& [name, reached] : std::vector<std::pair<std::string, std::size_t>>{
             {"ssgd", 8}, {"elastic", 1}, {"asgd", 2}, {"ssp", 8}}) {
      results.push_back(result_of(name, name, seed, reached));
      for (json& point : results.back().json["curve"]) {
        point["time_s"] = point["time_s"].get<double>() * (1 + 0.01 * static_cast<double>(seed));
      }
    }
  }
  const Comparison comparison = compare(results, {});
  const auto target = [&](const std::string& label) {
    return std::ranges::find(comparison.groups, label, &GroupRow::label)->targets[0];
  };
  // All 25 pairs in one order: 2 of the 252 orders of ten values are as far apart.
  EXPECT_NEAR(target("elastic").p_value, 2.0 / 252, 1e-12);
  EXPECT_NEAR(target("elastic").p_holm, 3 * 2.0 / 252, 1e-12);
  EXPECT_NEAR(target("asgd").p_holm, 3 * 2.0 / 252, 1e-12);  // 2 p, but no less than the one before
  EXPECT_EQ(target("ssp").p_holm, 1);
  EXPECT_TRUE(std::isnan(target("ssgd").p_holm));
  EXPECT_THAT(groups_report(comparison, TableFormat::text),
              HasSubstr("against ssgd; p_holm: corrected for 3 comparisons (Holm).\n"));
}

}  // namespace
}  // namespace hetsgd
