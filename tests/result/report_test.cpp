#include "result/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "result/records.hpp"
#include "result/report/parts.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::json_of;
using test::record_of;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kNever = std::numeric_limits<double>::infinity();

// A result of the time before points of the curve had bytes.
LoadedResult run_of(const std::string& algorithm, const std::vector<double>& p1,
                    std::uint64_t seed = 1, const std::string& stragglers = "") {
  Record record = record_of(p1, seed);
  record.config["algorithm"] = algorithm;
  if (!stragglers.empty()) record.stragglers = {stragglers};
  json result = json_of(record);
  for (json& point : result["curve"]) point.erase("bytes_sent");
  return {algorithm + std::to_string(seed) + stragglers + ".json", std::move(result)};
}

// p1 passes 0.5 at second `reached`; 0: never. Ten seconds, an evaluation each.
LoadedResult timed(const std::string& algorithm, std::size_t reached,
                   const std::string& stragglers = "") {
  std::vector<double> p1(10, 0.1);
  for (std::size_t i = reached; reached > 0 && i < p1.size(); ++i) p1[i] = 0.6;
  return run_of(algorithm, p1, 1, stragglers);
}

json data_of(std::vector<LoadedResult> results, const ReportOptions& options = {}) {
  return report_data(std::move(results), options);
}

json only_group(std::vector<LoadedResult> results) {
  json data = data_of(std::move(results));
  EXPECT_EQ(data["workloads"].size(), 1u);
  EXPECT_EQ(data["workloads"][0]["groups"].size(), 1u);
  return data["workloads"][0]["groups"][0];
}

TEST(Report, SpreadKeepsBothEnds) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(report::spread(3, 5), (Places{0, 1, 2}));
  EXPECT_EQ(report::spread(9, 5), (Places{0, 2, 4, 6, 8}));
  EXPECT_EQ(report::spread(0, 5), Places{});
  EXPECT_EQ(report::spread(1000, 3), (Places{0, 499, 999}));
}

TEST(Report, RoundsToSignificantDigits) {
  EXPECT_EQ(report::rounded(0.123456, 3), 0.123);
  EXPECT_EQ(report::rounded(-98765.4, 3), -98800);
  EXPECT_EQ(report::rounded(1234567890.0, 4), 1235000000.0);
  EXPECT_EQ(report::rounded(0, 3), 0);
  EXPECT_EQ(report::rounded(kNever, 3), kNever);
  EXPECT_EQ(report::rounded(1e-320, 3), 1e-320);
}

TEST(Report, BytesOfTheCurveAreThoseOfItsPoints) {
  LoadedResult run = run_of("ssgd", {0, 0.2, 0.4});
  for (std::size_t i = 0; i < 3; ++i) run.json["curve"][i]["bytes_sent"] = i * i * 50;
  const json group = only_group({run});
  EXPECT_EQ(group["curves"]["x"]["bytes_sent"], json({0.0, 50.0, 200.0}));
}

// Two runs with evaluations at the same places: every number of the band is one of theirs, or their
// mean. Two workers send 111 bytes each in a run of 200 samples, and no point says when.
TEST(Report, BandsGoFromTheLowestToTheHighestRun) {
  const json group = only_group({run_of("ssgd", {0, 0.2, 0.4}), run_of("ssgd", {0, 0.4, 0.8}, 2)});
  const json& curves = group["curves"];
  EXPECT_EQ(curves["x"]["time_s"], json({0.0, 1.0, 2.0}));
  EXPECT_EQ(curves["x"]["samples_count"], json({0.0, 100.0, 200.0}));
  EXPECT_EQ(curves["x"]["bytes_sent"], json({0.0, 111.0, 222.0}));
  for (const char* axis : {"time_s", "samples_count", "bytes_sent"}) {
    const json& band = curves["y"]["p1"][axis];
    EXPECT_EQ(band["median"], json({0.0, 0.3, 0.6})) << axis;
    EXPECT_EQ(band["low"], json({0.0, 0.2, 0.4})) << axis;
    EXPECT_EQ(band["high"], json({0.0, 0.4, 0.8})) << axis;
  }
  // The first point has no training loss.
  EXPECT_EQ(curves["y"]["train_loss"]["time_s"]["median"], json({nullptr, 1.0, 1.0}));
}

// The second run needs twice the time: its curve is 0.1 t. The first one, 0.2 t, ends at 2 s and
// keeps 0.4. With two of them and one that ends at 4 s the axis ends at 2 s.
TEST(Report, RunsOfUnequalLengthMeetOnOneGrid) {
  LoadedResult slow = run_of("ssgd", {0, 0.2, 0.4}, 2);
  for (json& point : slow.json["curve"]) point["time_s"] = 2 * point["time_s"].get<double>();
  const LoadedResult fast = run_of("ssgd", {0, 0.2, 0.4});
  const json two = only_group({fast, slow});
  EXPECT_EQ(two["curves"]["x"]["time_s"], json({0.0, 1.0, 2.0, 4.0}));
  EXPECT_EQ(two["curves"]["y"]["p1"]["time_s"]["low"], json({0.0, 0.1, 0.2, 0.4}));
  EXPECT_EQ(two["curves"]["y"]["p1"]["time_s"]["high"], json({0.0, 0.2, 0.4, 0.4}));
  const json three = only_group({fast, slow, run_of("ssgd", {0, 0.2, 0.4}, 3)});
  EXPECT_EQ(three["curves"]["x"]["time_s"], json({0.0, 1.0, 2.0}));
}

TEST(Report, LongCurvesAreThinnedOut) {
  std::vector<double> p1;
  for (int i = 0; i <= 1000; ++i) p1.push_back(i / 2000.0);
  const json curves = only_group({run_of("ssgd", p1)})["curves"];
  const json& x = curves["x"]["time_s"];
  EXPECT_EQ(x.size(), 120u);
  EXPECT_EQ(x.front(), 0);
  EXPECT_EQ(x.back(), 1000);
  EXPECT_EQ(curves["y"]["p1"]["time_s"]["median"].back(), 0.5);
  EXPECT_FALSE(curves["y"]["p1"]["time_s"].contains("low"));  // one run has no band
}

TEST(Report, WhatIsLearntOnWhatMachineMakesAWorkload) {
  const json data = data_of({timed("ssgd", 4), timed("asgd", 2), timed("ssgd", 6, "kind=pause"),
                             timed("asgd", 3, "kind=pause")});
  ASSERT_EQ(data["workloads"].size(), 2u);
  const json& slow = data["workloads"][1];
  EXPECT_EQ(slow["name"], "hand; stragglers: kind=pause");
  EXPECT_EQ(data["workloads"][0]["name"], "hand; stragglers: none");
  EXPECT_EQ(slow["about"], slow["name"]);
  EXPECT_EQ(slow["groups"].size(), 2u);
  EXPECT_EQ(slow["runs"].size(), 2u);
  for (const json& workload : data["workloads"]) {
    EXPECT_THAT(workload["warnings"].dump(), Not(HasSubstr("different workloads")));
    EXPECT_EQ(workload["reference"], "ssgd");
  }
  // The numbers are those of compare: 6 s against 3 s.
  EXPECT_EQ(slow["groups"][1]["label"], "asgd");
  EXPECT_EQ(slow["groups"][1]["place"], 0);
  EXPECT_EQ(slow["groups"][1]["targets"][0]["speedup"]["median"], 2);
}

TEST(Report, WorkloadsAreCalledAsTheirCasesOrFolders) {
  LoadedResult fast = timed("ssgd", 4), slow = timed("ssgd", 6, "kind=pause");
  const auto names = [&] {
    const json data = data_of({fast, slow});
    return std::pair(data["workloads"][0]["name"].get<std::string>(),
                     data["workloads"][1]["name"].get<std::string>());
  };
  fast.path = "runs/fast/1/a.json";
  slow.path = "runs/slow/a.json";
  EXPECT_EQ(names(), std::pair(std::string("fast/1"), std::string("slow")));
  slow.path = "runs/a.json";  // a folder that holds the other one, too
  EXPECT_EQ(names().first, "fast/1");
  EXPECT_EQ(names().second, "hand; stragglers: kind=pause");
  slow.case_name = "paused";
  EXPECT_EQ(names().second, "paused");
  // Two folders of one workload, beside one of the other.
  LoadedResult again = timed("asgd", 4);
  again.path = "runs/more/b.json";
  slow.path = "runs/slow/a.json";
  EXPECT_EQ(data_of({fast, slow, again})["workloads"][0]["name"], "fast, more");
}

// Best times: 1 s, 2 s and 3 s. Ratios: ssgd 1, 2 and 1; asgd 2, 1 and missed. Areas up to 4: ((4 -
// 1) + (4 - 2) + (4 - 1)) / 9 and ((4 - 2) + (4 - 1) + 0) / 9. No method reached the target under
// the fourth.
TEST(Report, PerformanceProfileIsThatOfDolanAndMore) {
  const json data =
      data_of({timed("ssgd", 1, "kind=a"), timed("asgd", 2, "kind=a"), timed("ssgd", 4, "kind=b"),
               timed("asgd", 2, "kind=b"), timed("ssgd", 3, "kind=c"), timed("asgd", 0, "kind=c"),
               timed("ssgd", 0, "kind=d"), timed("asgd", 0, "kind=d")});
  const json& profile = data["profile"];
  ASSERT_EQ(profile["problems"].size(), 3u);
  EXPECT_EQ(profile["problems"][2]["workload"], 2);
  EXPECT_EQ(profile["problems"][2]["best_time_s"], 3);
  const json& ssgd =
      profile["solvers"][0]["label"] == "ssgd" ? profile["solvers"][0] : profile["solvers"][1];
  const json& asgd =
      profile["solvers"][0]["label"] == "asgd" ? profile["solvers"][0] : profile["solvers"][1];
  EXPECT_EQ(ssgd["ratios"], json({1.0, 2.0, 1.0}));
  EXPECT_EQ(asgd["ratios"], json({2.0, 1.0, nullptr}));
  EXPECT_EQ(asgd["ratios_reason"], "inf");
  EXPECT_EQ(asgd["solved"], 2);
  EXPECT_DOUBLE_EQ(ssgd["area"].get<double>(), 8.0 / 9);
  EXPECT_DOUBLE_EQ(asgd["area"].get<double>(), 5.0 / 9);
}

// Both workers of both runs compute 1.5 s; the runs take 2 s and 4 s: (3/4 + 3/8) / 2.
TEST(Report, SharesOfTheWorkersAreMeansOverTheRuns) {
  LoadedResult longer = run_of("ssgd", {0, 0.2, 0.4}, 2);
  longer.json["summary"]["elapsed_s"] = 4.0;
  const json workers = only_group({run_of("ssgd", {0, 0.2, 0.4}), longer})["workers"];
  EXPECT_EQ(workers["count"], 2);
  EXPECT_EQ(workers["elapsed_s"], 3.0);
  EXPECT_EQ(workers["compute"], json({0.5625, 0.5625}));
  EXPECT_EQ(workers["wait"], json({0.0, 0.0}));
}

// Worker 0 waits 3 s for 1 and 2 s for the server, and in the second run 1 s for 1.
TEST(Report, WhoWaitedForWhomIsShownWhereResultsSayIt) {
  LoadedResult first = run_of("ssgd", {0, 0.2, 0.4}), second = run_of("ssgd", {0, 0.2, 0.4}, 2);
  EXPECT_TRUE(only_group({first, second})["waited_for"].is_null());
  json server = {{"rank", nullptr}, {"service", "server"}, {"wait_s", 2.0}};
  first.json["workers"][0]["waited_for"] =
      json::array({{{"rank", 1}, {"wait_s", 3.0}}, std::move(server)});
  first.json["workers"][1]["waited_for"] = json::array();
  const json one = only_group({first, second})["waited_for"];  // the mean over those that say it
  EXPECT_EQ(one["service"], json::array({"server"}));
  EXPECT_EQ(one["wait_s"], json::parse("[[0.0, 3.0, 2.0], [0.0, 0.0, 0.0]]"));
  second.json["workers"][0]["waited_for"] = json::array({{{"rank", 1}, {"wait_s", 1.0}}});
  second.json["workers"][1]["waited_for"] = json::array();
  EXPECT_EQ(only_group({first, second})["waited_for"]["wait_s"],
            json::parse("[[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]"));
}

TEST(Report, LossesAreMeansOfTheRunsThatHaveThem) {
  LoadedResult first = run_of("ssgd", {0, 0.2, 0.4}), second = run_of("ssgd", {0, 0.2, 0.4}, 2);
  EXPECT_TRUE(only_group({first, second})["survival"].is_null());
  const auto lose = [](LoadedResult& run, double availability, const json& resume_s) {
    run.json["failures"].push_back(json::object());
    run.json["survival"] = {{"availability", availability}, {"resume_s", resume_s}};
  };
  lose(first, 0.5, nullptr);
  EXPECT_EQ(only_group({first, second})["survival"],
            json({{"runs", 1}, {"lost_workers", 1.0}, {"availability", 0.5}}));
  lose(second, 1, 3.0);
  EXPECT_EQ(only_group({first, second})["survival"],
            json({{"runs", 2}, {"lost_workers", 1.0}, {"availability", 0.75}, {"resume_s", 3.0}}));
}

// Half as many steps in the same time. The run without failures is the one of the same seed and of
// the same other stragglers.
TEST(Report, StepsAreComparedWithTheRunWithoutFailures) {
  const std::string slow = "kind=uniform,min=0s,max=0.05s,workers=0-3";
  LoadedResult whole = run_of("ssgd", {0, 0.2, 0.4}, 1, slow);
  LoadedResult lost = run_of("ssgd", {0, 0.2, 0.4}, 1, slow);
  lost.json["stragglers"].push_back("kind=fail,at=30s,workers=1");
  lost.json["config"]["detect"] = "1s";
  lost.json["survival"] = {{"availability", 0.5}};
  whole.json["summary"]["updates"] = 200;
  lost.json["summary"]["updates"] = 100;
  std::vector<LoadedResult> results = {lost, run_of("ssgd", {0, 0.2, 0.4}, 1), whole};
  report::add_step_efficiency(results);
  EXPECT_EQ(results[0].json["survival"]["step_efficiency"], 0.5);
  results = {lost, run_of("ssgd", {0, 0.2, 0.4}, 2, slow), run_of("asgd", {0, 0.2}, 1, slow)};
  report::add_step_efficiency(results);
  EXPECT_FALSE(results[0].json["survival"].contains("step_efficiency"));
}

TEST(Report, BatchSizesAreThoseOfTheMerges) {
  LoadedResult result = run_of("adaptive", {0, 0.2, 0.4});
  const json sizes = only_group({result})["batch_sizes"];
  EXPECT_EQ(sizes["batch_size"], json::parse("[[32], [16]]"));
  EXPECT_EQ(sizes["time_s"], json::array({1.0}));
  result.json["events"][0]["batch_size"] = {16, 16};
  EXPECT_TRUE(only_group({result})["batch_sizes"].is_null());  // they never changed
}

// 0 three times, 2 five times: shares 3/8 and 5/8, the median is 2. More than 80 values go into
// bins of equal width: 0 .. 199 in bins of 3.
TEST(Report, HistogramsCountAllRuns) {
  LoadedResult first = run_of("asgd", {0, 0.2}), second = run_of("asgd", {0, 0.2}, 2);
  first.json["histograms"] = {{"staleness", {{"0", 3}, {"2", 1}}}};
  second.json["histograms"] = {{"staleness", {{"2", 4}}}};
  const json counts = only_group({first, second})["histograms"]["staleness"];
  EXPECT_EQ(counts["value"], json({0, 2}));
  EXPECT_EQ(counts["share"], json({0.375, 0.625}));
  EXPECT_EQ(counts["count"], 8);
  EXPECT_EQ(counts["p50"], 2);
  EXPECT_EQ(counts["width"], 1);
  json many = json::object();
  for (int value = 0; value < 200; ++value) many[std::to_string(value)] = 1;
  first.json["histograms"]["staleness"] = many;
  const json binned = only_group({first})["histograms"]["staleness"];
  EXPECT_EQ(binned["width"], 3);
  EXPECT_EQ(binned["value"].size(), 67u);
  EXPECT_EQ(binned["share"][0], 0.015);  // 0, 1 and 2 of 200
  EXPECT_EQ(binned["max"], 199);
}

TEST(Report, SettingsAreThoseInWhichGroupsDiffer) {
  LoadedResult other = run_of("ssgd", {0, 0.2}, 2);
  other.json["config"]["learning_rate"] = 0.25;
  other.json["config"]["beta"] = 2;
  const json workload = data_of({run_of("ssgd", {0, 0.2}), other})["workloads"][0];
  EXPECT_EQ(workload["settings"]["options"], json::array({"learning_rate"}));
  const json& groups = workload["settings"]["groups"];
  EXPECT_EQ(groups[0]["values"], json::array({"0.5"}));
  EXPECT_EQ(groups[1]["values"], json::array({"0.25"}));
  EXPECT_EQ(groups[1]["own"], json::array({"beta=2"}));
}

TEST(Report, GroupsAreCalledAsTheSweepCallsThem) {
  LoadedResult plain = run_of("ssgd", {0, 0.2}), large = run_of("ssgd", {0, 0.2});
  large.json["config"]["learning_rate"] = 0.25;
  plain.setup = "mean";
  large.setup = "sum";
  const auto labels = [&] {
    const json workload = data_of({plain, large})["workloads"][0];
    return std::pair(workload["groups"][0]["label"].get<std::string>(),
                     workload["groups"][1]["label"].get<std::string>());
  };
  EXPECT_EQ(labels(), std::pair(std::string("mean"), std::string("sum")));
  large.setup = "mean";
  plain.case_name = "half";
  large.case_name = "quarter";
  EXPECT_EQ(labels(), std::pair(std::string("half"), std::string("quarter")));
  LoadedResult sum = run_of("asgd", {0, 0.2});
  sum.setup = "sum";
  const json groups = data_of({plain, large, sum})["workloads"][0]["groups"];
  EXPECT_EQ(groups[0]["label"], "mean, half");
  EXPECT_EQ(groups[2]["label"], "sum");
  large.case_name = "half";
  EXPECT_EQ(labels(), std::pair(std::string("ssgd (learning_rate=0.5)"),
                                std::string("ssgd (learning_rate=0.25)")));
}

// Two machines, on which local-sgd ran with two numbers of local steps on the first one alone.
TEST(Report, AMethodHasOneNameInAllWorkloads) {
  std::vector<LoadedResult> results;
  for (const auto& [setup, straggler] :
       {std::pair<std::string, std::string>{"heavy", "kind=pause"}, {"calm", ""}}) {
    for (const int steps : {4, 16}) {
      results.push_back(timed("local-sgd", static_cast<std::size_t>(steps) / 4, straggler));
      results.back().json["config"]["local_steps"] = steps;
      results.back().setup = setup;
      results.back().case_name = "local-sgd";
    }
    results.push_back(timed("ssgd", 2, straggler));
    results.back().setup = setup;
    results.back().case_name = "ssgd";
  }
  results.erase(results.begin() + 4);  // calm, 16 local steps
  const json data = data_of(results);
  std::vector<std::string> names, labels;
  for (const json& workload : data["workloads"]) names.push_back(workload["name"]);
  for (const json& solver : data["profile"]["solvers"]) labels.push_back(solver["label"]);
  EXPECT_THAT(names, ::testing::ElementsAre("heavy", "calm"));
  EXPECT_THAT(labels, ::testing::UnorderedElementsAre("local-sgd (local_steps=4)",
                                                      "local-sgd (local_steps=16)", "ssgd"));
  for (const json& solver : data["profile"]["solvers"]) {
    const bool twice = solver["label"] != "local-sgd (local_steps=16)";
    EXPECT_EQ(solver["problems"], twice ? json({0, 1}) : json({0})) << solver["label"];
  }
}

TEST(Report, LongLabelsGiveWayToFolders) {
  LoadedResult first = run_of("ssgd", {0, 0.2}), second = run_of("ssgd", {0, 0.2}), other = second;
  for (LoadedResult* each : {&first, &second}) {
    each->json["config"]["remark"] = std::string(40, each == &first ? 'a' : 'b');
  }
  first.path = "runs/first/1.json";
  second.path = "runs/second/1.json";
  other.path = "runs/1.json";
  other.json["config"]["algorithm"] = "asgd";
  const json groups = data_of({first, second, other})["workloads"][0]["groups"];
  EXPECT_EQ(groups[0]["label"], "first");
  EXPECT_EQ(groups[1]["label"], "second");
  EXPECT_EQ(groups[2]["label"], "asgd");
  EXPECT_EQ(groups[0]["options"]["remark"], std::string(40, 'a'));
}

TEST(Report, ReferenceAndTargetsHoldWhereAWorkloadHasThem) {
  ReportOptions options;
  options.reference = "asgd";
  options.targets = {{"p1", true, 0.3}, {"auc", true, 0.9}};
  const std::vector<LoadedResult> results = {timed("ssgd", 4), timed("asgd", 2),
                                             timed("ssgd", 6, "kind=pause")};
  EXPECT_THROW(data_of(results, options), Error);  // nobody measured auc
  options.targets.pop_back();
  const json data = data_of(results, options);
  EXPECT_EQ(data["workloads"][0]["reference"], "asgd");
  EXPECT_EQ(data["workloads"][0]["targets"], json::array({"p1>=0.3"}));
  EXPECT_EQ(data["workloads"][1]["reference"], "ssgd");
  EXPECT_THAT(data["workloads"][1]["warnings"],
              Contains("--reference asgd names no group or several groups: the reference is ssgd"));
  options.reference = "ssgd";
  EXPECT_EQ(data_of(results, options)["workloads"][1]["reference"], "ssgd");
  std::vector<LoadedResult> named = results;
  named[0].setup = "the one";
  options.reference = "the one";
  EXPECT_EQ(data_of(named, options)["workloads"][0]["reference"], "the one");
  options.reference = "esync";
  EXPECT_THROW(data_of(results, options), Error);
  EXPECT_THROW(data_of({}), Error);
}

TEST(Report, SurvivesRunsThatEndedAtOnce) {
  const json data = data_of({run_of("ssgd", {}), run_of("ssgd", {0.1}, 2)});
  const json& group = data["workloads"][0]["groups"][0];
  EXPECT_EQ(group["n"], 2);
  EXPECT_EQ(group["curves"]["x"]["time_s"], json::array({0.0}));
  EXPECT_TRUE(group["workers"].is_null());
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Report, NothingInTheDataBecomesMarkup) {
  const std::string evil = "</script><img src=x onerror=alert(1)><!-- {{script}} \"' & \xff";
  LoadedResult result = run_of("ssgd", {0, 0.2});
  result.path = result.setup = evil;
  result.json["environment"]["hostname"] = evil;
  result.json["config"][evil] = evil;
  ReportOptions options;
  options.title = evil;
  options.notes = {evil};
  const std::string page = report_page(data_of({result}, options));
  const std::string plain = report_page(data_of({run_of("ssgd", {0, 0.2})}));
  for (const char* part : {"</script", "<img", "<!--", "<script"}) {
    EXPECT_EQ(count_of(page, part), count_of(plain, part)) << part;
  }
  EXPECT_THAT(page, HasSubstr("{{script}}"));  // what is put in is not looked at again
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img src=x onerror"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
}

}  // namespace
}  // namespace hetsgd
