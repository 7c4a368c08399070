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
#include "support/failure.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::Failure;
using test::failure_of;
using test::families_of;
using test::json_of;
using test::record_of;
using test::result_of;
using test::results_of;
using test::tuning_of;
using test::usage_error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kMissed = std::numeric_limits<double>::infinity();

std::string warnings_of(const std::vector<LoadedResult>& results) {
  return ::testing::PrintToString(compare(results, {}).warnings);
}

std::string reference_of(const std::vector<LoadedResult>& results, const std::string& name = "") {
  return compare(results, {.reference = name}).reference().label;
}

std::vector<std::string> labels_of(const Comparison& comparison) {
  std::vector<std::string> labels;
  for (const GroupRow& group : comparison.groups) labels.push_back(group.label);
  return labels;
}

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
              ElementsAre(HasSubstr("fewer than 6 seeds (adaptive 5, ssgd 5)"),
                          HasSubstr("p1>=0.5 is reached within the first 20 evaluations "
                                    "(adaptive 2, ssgd 4): its times are coarse"),
                          HasSubstr("no learning rate was tuned")));
}

// Two real runs reach the target after 4 s of training. One has loaded for 1 s and one for 9 s, and
// each evaluation, the initial one too, has taken 2 s.
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
  EXPECT_EQ(usage_error_of(
                [] { compare({result_of("c.json", "c", 1, 4)}, {.clock = RunClock::mlperf}); }),
            "--clock: found mlperf, which c.json does not have (simulated: its time is not the "
            "host's)");
}

// 4 s and 400 samples against 2 s and 100 samples: half the throughput, a quarter of the samples.
TEST(Compare, SpeedUpIsStatisticalTimesHardware) {
  std::vector<LoadedResult> results = families_of({{"ssgd", 4}, {"asgd", 1}});
  for (std::size_t i = 1; i < results.size(); i += 2) {
    for (json& point : results[i].json["curve"]) {
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
  EXPECT_EQ(target.p_value, 2.0 / 64);  // six pairs of one sign: 2 of 64 signs
  EXPECT_EQ(target.least_effect, 1);    // all pairs have the same ratio
  EXPECT_TRUE(std::isnan(comparison.groups[1].targets[0].p_value));
  EXPECT_EQ(comparison.groups[1].targets[0].statistical, 1);
}

// A quarter of the samples, an eighth of the updates, half of both per second, equal final values.
TEST(Compare, RelatesSamplesUpdatesThroughputAndFinalValuesToTheReference) {
  std::vector<LoadedResult> results = families_of({{"ssgd", 4}, {"asgd", 1}});
  for (std::size_t i = 1; i < results.size(); i += 2) {
    results[i].json["summary"]["samples_per_s"] = 50;
    for (json& point : results[i].json["curve"]) {
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
  EXPECT_EQ(target.samples_relation.p_value, 2.0 / 64);
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

// A run that misses the target needs infinitely many samples; a run without a throughput has no
// ratio.
TEST(Compare, ARelationOfMissedOrUnknownValues) {
  std::vector<LoadedResult> results = results_of({{"ssgd", 4}, {"asgd", 0}});
  results[1].json["summary"]["samples_per_s"] = nullptr;
  const Comparison comparison = compare(results, {});
  const GroupRow& asgd = comparison.groups[1];
  ASSERT_EQ(asgd.label, "asgd");
  EXPECT_EQ(asgd.targets[0].samples_relation.ratio.median, kMissed);
  EXPECT_TRUE(std::isnan(asgd.samples_per_s_relation.ratio.median));
  EXPECT_TRUE(std::isnan(asgd.samples_per_s_relation.p_value));
}

TEST(Compare, SortsByTimeThenByFinalValue) {
  auto results = results_of({{"sgd", 0}, {"ssgd", 4}, {"asgd", 0}, {"elastic", 1}});
  results[2].json["summary"]["final"]["p1"] = 0.4;
  const Comparison comparison = compare(results, {});
  EXPECT_THAT(labels_of(comparison), ElementsAre("elastic", "ssgd", "asgd", "sgd"));
  EXPECT_TRUE(comparison.groups[1].reference);  // the first file that reached the target
}

TEST(Compare, AReferenceThatMissedTheTargetIsReplaced) {
  const auto results = results_of({{"ssgd", 0}, {"asgd", 4}, {"elastic", 2}});
  const Comparison comparison = compare(results, {});
  EXPECT_EQ(comparison.reference().label, "asgd");
  EXPECT_EQ(comparison.groups[0].targets[0].speedup.median, 2);  // elastic
  EXPECT_THAT(
      comparison.warnings,
      ::testing::Contains("the reference is asgd, because the median run of ssgd, which comes "
                          "first, missed p1>=0.5; --reference names another"));
  EXPECT_EQ(reference_of(results, "ssgd"), "ssgd");
  // The gate takes the first result even if it missed the target.
  const Comparison gate = compare(results, {.first_is_reference = true});
  EXPECT_EQ(gate.reference().label, "ssgd");
  EXPECT_THAT(gate.warnings, ::testing::Contains("ssgd, the reference, holds p1>=0.5 in 0 of 1 "
                                                 "runs: speed-ups over it are infinite"));
  // No run reached it: the first file is the reference, without a warning.
  const Comparison missed = compare({results[0]}, {});
  EXPECT_EQ(missed.reference().label, "ssgd");
  EXPECT_THAT(::testing::PrintToString(missed.warnings), Not(HasSubstr("reference")));
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
  auto results = results_of({{"ssgd", 4}, {"asgd", 4}, {"sgd", 4}});
  EXPECT_THAT(warnings_of(results),
              HasSubstr("no learning rate was tuned: the ranking may only show"));
  for (LoadedResult& result : results) result.json["tuning"] = tuning_of(3);
  EXPECT_THAT(warnings_of(results), Not(HasSubstr("tuned")));
  results[2].json["tuning"] = tuning_of(4);
  EXPECT_THAT(warnings_of(results),
              HasSubstr("learning rates were tuned with unequal budgets: asgd, ssgd (3 trials for "
                        "p1 on 200 rows, grid 0.5,1.0,1.5); sgd (4 trials for p1 on 200 rows, "
                        "grid 0.5,1.0,1.5,2.0)"));
  results[2].json["tuning"] = nullptr;
  EXPECT_THAT(warnings_of(results), HasSubstr("; sgd (not tuned)"));
  results[1].json["tuning"]["edge_of_grid"] = true;
  EXPECT_THAT(warnings_of(results),
              HasSubstr("asgd: its learning rate 1.0 lies at the edge of the grid"));
  results[1].json["tuning"]["differs"] = {"workers", "speed"};
  EXPECT_THAT(warnings_of(results),
              HasSubstr("asgd: its runs and the trials of its tuning differ in these options: "
                        "workers, speed"));
}

TEST(Compare, AMissedTargetIsInfinitelySlow) {
  const auto results = results_of({{"ssgd", 4}, {"adaptive", 0}});
  EXPECT_EQ(compare(results, {}).worst_ratio(), kMissed);
  const Comparison turned = compare(results, {.targets = {}, .reference = "b"});
  EXPECT_EQ(turned.groups[0].targets[0].ratio, 0);
  EXPECT_EQ(turned.groups[0].targets[0].speedup.median, kMissed);
  EXPECT_TRUE(std::isnan(turned.groups[0].targets[0].hardware));
  EXPECT_TRUE(std::isnan(turned.groups[1].targets[0].ratio));
  EXPECT_EQ(turned.worst_ratio(), 0);
}

// A target is read off the curve: where it ends runs, they are other runs. Paths of the same data
// separate nothing. Results of earlier programs lack options that came since.
TEST(Compare, OptionsSeparateGroups) {
  const auto labels = [](const std::string& name, const json& value, bool stop = false) {
    std::vector<LoadedResult> results = results_of({{"ssgd", 4}, {"ssgd", 4}});
    results[1].json["config"]["seed"] = 2;
    results[1].json["config"][name] = value;
    for (LoadedResult& each : results) each.json["config"]["stop_at_target"] = stop;
    return labels_of(compare(results, {}));
  };
  EXPECT_THAT(labels("learning_rate", 0.25),
              ElementsAre("ssgd (learning_rate=0.5)", "ssgd (learning_rate=0.25)"));
  EXPECT_EQ(labels("target", {"p1>=0.7"}).size(), 1U);
  EXPECT_EQ(labels("target", {"p1>=0.7"}, true).size(), 2U);
  EXPECT_EQ(labels("train", "/elsewhere/train.txt").size(), 1U);
  EXPECT_EQ(labels("of_today", nullptr).size(), 1U);
  EXPECT_EQ(labels("of_today", "none").size(), 1U);
  EXPECT_THAT(labels("of_today", 2), ElementsAre("ssgd", "ssgd (of_today=2)"));
}

TEST(Compare, WarnsOfFewSeedsOtherWorkloadsAndOpenRuns) {
  auto results = results_of({{"ssgd", 4}, {"adaptive", 4}, {"adaptive", 4}});
  results[1].json["dataset"]["train"]["content_hash"] = "xxh3:00000000000000ff";
  results[2].json["status"] = "aborted";
  const std::string warnings = warnings_of(results);
  EXPECT_THAT(warnings, HasSubstr("different workloads: a and b differ in the training data"));
  EXPECT_THAT(warnings, HasSubstr("fewer than 6 seeds (ssgd 1,"));
  EXPECT_THAT(warnings, HasSubstr("c: the run is not complete, its status is aborted"));
}

// Six seeds each, of which `times` are the seconds to the target.
std::vector<LoadedResult> seeds_of(const std::string& algorithm, const std::vector<double>& times,
                                   std::uint64_t first_seed = 1) {
  std::vector<LoadedResult> results;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool missed = std::isinf(times[i]);
    results.push_back(
        result_of(algorithm + std::to_string(i), algorithm, first_seed + i, missed ? 0 : 4));
    for (json& point : results.back().json["curve"]) {
      if (!missed) point["time_s"] = point["time_s"].get<double>() * times[i] / 4;
    }
  }
  return results;
}

std::vector<LoadedResult> joined(std::vector<LoadedResult> a, const std::vector<LoadedResult>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Seeds differ by a factor of 6, both methods alike: pairs show the 10 %, unpaired runs do not. The
// files come in another order of seeds.
TEST(Compare, RunsOfOneSeedArePairs) {
  const std::vector<LoadedResult> base = seeds_of("ssgd", {1, 2, 3, 4, 5, 6});
  std::vector<LoadedResult> other = seeds_of("asgd", {1.1, 2.2, 3.3, 4.4, 5.5, 6.6});
  std::ranges::reverse(other);
  const auto relation = [&](const std::vector<LoadedResult>& results) {
    const Comparison comparison = compare(joined(base, results), {.reference = "ssgd"});
    return *std::ranges::find(comparison.groups, false, &GroupRow::reference);
  };
  const GroupRow paired = relation(other);
  EXPECT_TRUE(paired.paired);
  EXPECT_EQ(paired.targets[0].p_value, 2.0 / 64);
  EXPECT_NEAR(paired.targets[0].speedup.low, 1 / 1.1, 1e-12);
  EXPECT_NEAR(paired.targets[0].speedup.high, 1 / 1.1, 1e-12);
  EXPECT_NEAR(paired.targets[0].least_effect, 1, 1e-6);

  const GroupRow seeds = relation(seeds_of("asgd", {1.1, 2.2, 3.3, 4.4, 5.5, 6.6}, 2));
  EXPECT_FALSE(seeds.paired);
  EXPECT_GT(seeds.targets[0].p_value, 0.5);
  EXPECT_LT(seeds.targets[0].speedup.low, 0.5);
  EXPECT_GT(seeds.targets[0].least_effect, 2);
  // One more seed, one seed twice, or other data: no pairs.
  EXPECT_FALSE(relation(seeds_of("asgd", {1, 2, 3, 4, 5, 6, 7})).paired);
  std::vector<LoadedResult> twice = other;
  twice[0].json["config"]["seed"] = twice[1].json["config"]["seed"];
  EXPECT_FALSE(relation(twice).paired);
  for (LoadedResult& each : other) {
    each.json["dataset"]["test"]["content_hash"] = "xxh3:00000000000000ff";
  }
  EXPECT_FALSE(relation(other).paired);
}

// The methods miss the target with different seeds: five pairs say that one is slower, one the
// contrary, and that one has the largest rank.
TEST(Compare, AMissedTargetIsTheLargestDifferenceOfPairs) {
  const std::vector<LoadedResult> results =
      joined(seeds_of("ssgd", {1, 2, 3, 4, 5, kMissed}), seeds_of("asgd", {2, 4, 6, 8, 10, 7}));
  const Comparison comparison = compare(results, {.reference = "ssgd"});
  const GroupTarget& target = comparison.groups[1].targets[0];
  // Five ranks of 3 and a sixth of 6. A sum of 6 or less have no rank, one or two of the five, or
  // the sixth alone: 2 (1 + 5 + 10 + 1) / 64.
  EXPECT_EQ(target.p_value, 34.0 / 64);
  EXPECT_TRUE(std::isnan(target.least_effect));
}

TEST(Compare, TheReportSaysWhichTestItUses) {
  const auto report = [](const std::vector<LoadedResult>& results) {
    return groups_report(compare(results, {.reference = "ssgd"}), TableFormat::text);
  };
  const std::vector<LoadedResult> base = seeds_of("ssgd", {1, 2, 3, 4, 5, 6});
  const std::vector<LoadedResult> other = seeds_of("asgd", {1, 2, 3, 4, 5, 7}, 2);
  EXPECT_THAT(report(joined(base, other)), HasSubstr("\np: two-sided Mann-Whitney U test"));
  const std::string both = report(joined(joined(base, other), seeds_of("ssp", {1, 2, 3, 4, 5, 7})));
  EXPECT_THAT(both,
              HasSubstr("\np: two-sided Wilcoxon signed-rank test of the times against ssgd"));
  EXPECT_THAT(both, HasSubstr("\np of asgd: two-sided Mann-Whitney U test"));
}

// Six files of one run are one run; another run of the same seed is not.
TEST(Compare, WarnsOfCopies) {
  std::vector<LoadedResult> results = results_of({{"ssgd", 2}, {"ssgd", 2}, {"ssgd", 2}});
  const std::string warnings = warnings_of(results);
  EXPECT_THAT(warnings, HasSubstr("ssgd: 2 of 3 results are copies, with the seed and the numbers "
                                  "of another one (b of a, c of a)"));
  EXPECT_THAT(warnings, Not(HasSubstr("occurs")));
  results.push_back(result_of("d", "ssgd", 1, 4));
  EXPECT_THAT(warnings_of(results), HasSubstr("ssgd: seed 1 occurs 2 times"));
  EXPECT_THAT(warnings_of(results_of({{"ssgd", 2}, {"sgd", 2}})), Not(HasSubstr("copies")));
}

TEST(Compare, WarnsOfTooFewPairs) {
  const auto warnings = [](const std::vector<double>& times) {
    return warnings_of(joined(seeds_of("ssgd", times), seeds_of("asgd", times)));
  };
  EXPECT_THAT(
      warnings({1, 2, 3, 4, 5}),
      HasSubstr("fewer than 6 seeds (ssgd 5, asgd 5): so few pairs can show no difference"));
  EXPECT_THAT(warnings({1, 2, 3, 4, 5, 6}), Not(HasSubstr("seeds")));
  EXPECT_THAT(warnings_of(joined(seeds_of("ssgd", {1, 2}), seeds_of("asgd", {1, 2}, 3))),
              HasSubstr("fewer than 6 seeds (ssgd 2, asgd 2): the differences may be chance"));
}

// The text that explains the numbers of a machine can change, the numbers cannot.
TEST(Compare, MachinesAreComparedByNumbers) {
  auto results = results_of({{"ssgd", 4}, {"adaptive", 4}});
  results[0].json["cluster"]["network"] = {{"latency_s", 1}, {"source", "a paper"}};
  results[1].json["cluster"]["network"] = {{"latency_s", 1}, {"source", "the same paper"}};
  EXPECT_THAT(warnings_of(results), Not(HasSubstr("differ in the network")));
  results[1].json["cluster"]["network"]["latency_s"] = 2;
  EXPECT_THAT(warnings_of(results), HasSubstr("differ in the network"));
}

// Eight samples a step against sixteen, under one --batch-size, cause a warning. Changes that a
// method makes in the course of a run, and values that the user has set, do not.
TEST(Compare, WarnsWhereStepsHaveOtherNumbersOfSamplesUnasked) {
  std::vector<LoadedResult> results = results_of({{"ssgd", 4}, {"asgd", 4}});
  for (LoadedResult& each : results) {
    each.json["config"]["batch_size"] = 16;
    each.json["events"] = json::array();
    for (json& worker : each.json["workers"]) {
      worker["steps"] = worker["samples"].get<int>() / (&each == &results[0] ? 8 : 16);
    }
  }
  EXPECT_THAT(warnings_of(results), HasSubstr("samples per step of a worker"));
  EXPECT_THAT(warnings_of(results), ::testing::ContainsRegex("8[.0-9]*: ssgd; 16[.0-9]*: asgd"));
  std::vector<LoadedResult> adaptive = results;
  adaptive[0].json["events"] = {{{"type", "merge"}, {"batch_size", {16, 8}}}};
  EXPECT_THAT(warnings_of(adaptive), Not(HasSubstr("step of a worker")));
  results[0].json["config"]["batch_size"] = 8;
  EXPECT_THAT(warnings_of(results), Not(HasSubstr("step of a worker")));
}

TEST(Compare, WarnsOfLoadedHosts) {
  std::vector<LoadedResult> results = results_of({{"ssgd", 4}, {"asgd", 4}});
  json& load = results[1].json["environment"]["load"];
  load = {{"start", 0.0}, {"end", nullptr}, {"idle_cores", 0}};
  EXPECT_TRUE(validate_result(results[1].json).empty());
  EXPECT_THAT(warnings_of(results), Not(HasSubstr("other programs")));
  load["end"] = 3.5;
  EXPECT_THAT(warnings_of(results), HasSubstr("other programs took cores from 1 of 2 runs (b)"));
}

TEST(Compare, WarnsWhereSomeAreChargedForStaging) {
  std::vector<LoadedResult> results = results_of({{"ssgd", 4}, {"rna", 4}});
  results[1].json["config"]["staging"] = true;
  EXPECT_THAT(warnings_of(results), HasSubstr("only rna is charged"));
  results[1].json["config"]["staging"] = false;
  EXPECT_THAT(warnings_of(results), Not(HasSubstr("staging")));
}

// Options may come from any program: their types are looked at, never relied on.
TEST(Compare, AnOptionOfAnyTypeIsReadOrRefused) {
  const auto results = results_of({{"ssgd", 4}, {"asgd", 4}});
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
  auto results = results_of({{"ssgd", 4}, {"ssgd", 2}, {"ssgd", 3}, {"asgd", 3}});
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
  EXPECT_THAT(labels, ElementsAre("mean", "adasum (bucket=1)", "adasum (bucket=2)", "ssgd"));
  EXPECT_EQ(comparison.reference().label, "mean");  // the first one
}

TEST(Compare, AReferenceIsALabelThenACaseThenAnAlgorithm) {
  const std::vector<LoadedResult> results = cases_of_a_sweep();
  const auto reference = [&](const std::string& name) { return reference_of(results, name); };
  EXPECT_EQ(reference("mean"), "mean");
  EXPECT_EQ(reference("ssgd"), "ssgd");  // the case, whose algorithm is another one
  EXPECT_EQ(reference("asgd"), "ssgd");
  EXPECT_EQ(reference("adasum (bucket=2)"), "adasum (bucket=2)");
  EXPECT_EQ(reference("c"), "adasum (bucket=2)");  // the file
  EXPECT_THROW(compare({}, {}), Error);
  const Failure several = failure_of([&] { reference("adasum"); });
  EXPECT_EQ(several.code, ExitCode::usage);
  EXPECT_THAT(several.message, HasSubstr("\"adasum (bucket=1)\", \"adasum (bucket=2)\""));
  EXPECT_THAT(failure_of([&] { reference("elastic"); }).hint, HasSubstr("\"mean\""));
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
  EXPECT_THAT(groups_report(comparison, TableFormat::text),
              HasSubstr("\np1>=0.5 is held from evaluation 4 on. Times are exact to one evaluation "
                        "interval: 1.75 s.\n"));
}

// The first crossing is a figure of its own, and a final value below the target causes a warning.
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
  auto results = families_of({{"ssgd", 8}, {"elastic", 1}, {"asgd", 2}, {"ssp", 8}});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const double seed = 1 + static_cast<double>(i / 4);
    for (json& point : results[i].json["curve"]) {
      point["time_s"] = point["time_s"].get<double>() * (1 + 0.01 * seed);
    }
  }
  const Comparison comparison = compare(results, {});
  const auto target = [&](const std::string& label) {
    return std::ranges::find(comparison.groups, label, &GroupRow::label)->targets[0];
  };
  EXPECT_EQ(target("elastic").p_value, 2.0 / 64);
  EXPECT_EQ(target("elastic").p_holm, 3 * 2.0 / 64);
  EXPECT_EQ(target("asgd").p_holm, 3 * 2.0 / 64);  // 2 p, but no less than the one before
  EXPECT_EQ(target("ssp").p_holm, 1);
  EXPECT_TRUE(std::isnan(target("ssgd").p_holm));
  EXPECT_THAT(
      groups_report(comparison, TableFormat::text),
      HasSubstr("p: two-sided Wilcoxon signed-rank test of the times against ssgd, paired by "
                "seed.\np_holm: corrected for 3 comparisons (Holm).\n"));
}

}  // namespace
}  // namespace hetsgd
