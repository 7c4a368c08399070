// The tables, the report and the JSON of a comparison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "result/compare.hpp"
#include "result/loaded_results.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::result_of;
using test::tuning_of;
using ::testing::HasSubstr;

// Fifteen groups, two of them with long names, fit on a wide terminal.
TEST(CompareOutput, TheReportFitsOnATerminal) {
  std::vector<LoadedResult> results;
  for (int group = 0; group < 15; ++group) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      results.push_back(result_of("r", group < 2 ? "hierarchical" : "eager-majority", seed,
                                  group == 14 ? 0 : 1 + static_cast<std::size_t>(group) / 4));
      json& result = results.back().json;
      result["tuning"] = tuning_of(3);
      if (group >= 2) {
        const std::string name = std::string("eager-major-") + static_cast<char>('a' + group);
        result["config"]["algorithm"] = name;
      } else {
        result["config"]["a_rather_long_option"] = std::string(30, static_cast<char>('a' + group));
      }
      for (json& point : result["curve"]) {
        point["time_s"] = (123.4 + group) * point["time_s"].get<double>();
      }
    }
  }
  const Comparison comparison = compare(results, {});
  const std::string text = groups_report(comparison, TableFormat::text);
  std::size_t width = 0, lines = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    width = std::max(width, end - at);
    at = end + 1;
    ++lines;
  }
  EXPECT_LE(width, 132u) << text;
  EXPECT_EQ(lines, 17u + 1 + 7 + 1 + 2) << text;
  EXPECT_THAT(text, HasSubstr("\nhierarchical [1] "));
  EXPECT_THAT(text, HasSubstr("\n[1] a_rather_long_option=aaaa"));
}

TEST(CompareOutput, TablesAndJsonAgree) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                             result_of("b", "adaptive", 1, 0)};
  const Comparison comparison = compare(results, {});
  EXPECT_EQ(
      runs_table(comparison).format(TableFormat::csv),
      "group,algorithm,file,seed,status,p1>=0.5 time_s,p1>=0.5 first_crossing_s,p1>=0.5 samples,"
      "p1>=0.5 updates,p1>=0.5 evaluation,p1>=0.5 resolution_s,samples_per_s,final_p1\n"
      "ssgd,ssgd,a,1,completed,4,4,400,40,4,1,100,0.6000\n"
      "adaptive,adaptive,b,1,completed,inf,inf,inf,inf,inf,,100,0.1000\n");
  EXPECT_THAT(
      groups_table(comparison).format(TableFormat::csv),
      HasSubstr("\nadaptive,adaptive,1,0,p1>=0.5,0,inf,inf,inf,inf,inf,inf,inf,0.0000,0.0000,"
                "0.0000,,,1,1,signed_rank,,inf,,100,100,100,0.1000,0.1000,0.1000,,\n"));
  const json document = comparison_json(comparison);
  EXPECT_EQ(document["groups"][0]["targets"][0]["time_s"]["median"], 4.0);
  EXPECT_TRUE(document["groups"][1]["targets"][0]["ratio"].is_null());
  EXPECT_EQ(document["groups"][1]["targets"][0]["ratio_reason"], "inf");
  EXPECT_EQ(document["groups"][1]["targets"][0]["times_s_reason"], "inf");
  EXPECT_EQ(document["groups"][1]["paired"], true);
  EXPECT_EQ(document["groups"][1]["test"], "signed_rank");
  EXPECT_TRUE(document["groups"][0]["test"].is_null());
  // A missed target has no least effect. One pair cannot show any.
  EXPECT_EQ(document["groups"][1]["targets"][0]["least_effect_reason"], "nan");
  EXPECT_EQ(document["groups"][1]["final_relation"]["least_effect_reason"], "inf");
}

// One column per option that varies: of those that a group has, and of the algorithm alone none.
TEST(CompareOutput, OptionsThatVaryAreColumns) {
  std::vector<LoadedResult> results = {result_of("a", "ssp", 1, 4), result_of("b", "ssp", 1, 4),
                                       result_of("c", "asgd", 1, 4)};
  for (LoadedResult& each : results) each.json["config"]["learning_rate"] = 0.5;
  results[0].json["config"]["staleness"] = 4;
  results[1].json["config"]["staleness"] = 16;
  results[2].json["config"]["learning_rate"] = 1.0;
  const Comparison comparison = compare(results, {});
  EXPECT_THAT(comparison.varying, ::testing::ElementsAre("learning_rate", "staleness"));
  const std::string runs = runs_table(comparison).format(TableFormat::csv);
  EXPECT_THAT(runs, HasSubstr("group,algorithm,learning_rate,staleness,file,"));
  EXPECT_THAT(runs, HasSubstr("\nssp (staleness=16),ssp,0.5,16,b,1,completed,"));
  EXPECT_THAT(runs, HasSubstr("\nasgd,asgd,1.0,,c,1,completed,"));
  EXPECT_THAT(groups_table(comparison).format(TableFormat::csv),
              HasSubstr("\nssp (staleness=4),ssp,0.5,4,1,0,p1>=0.5,1,4,"));
  const json document = comparison_json(comparison);
  EXPECT_EQ(document["groups"][2]["options"], (json{{"learning_rate", "1.0"}}));
  EXPECT_EQ(document["runs"][1]["options"], (json{{"learning_rate", "0.5"}, {"staleness", "16"}}));
}

}  // namespace
}  // namespace hetsgd
