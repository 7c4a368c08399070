#include "cluster/process_group.hpp"

namespace hetsgd {
namespace {

std::vector<Fact> facts(const std::string& algorithm, const std::string& hidden,
                        const std::string& seed) {
  return {{"--algorithm", algorithm, true}, {"--hidden", hidden}, {"--seed", seed}};
}

TEST(RollCall, WhoSaysTheSameDoesNotDiffer) {
  EXPECT_EQ(difference({facts("ssgd", "8", "1")}), "");
  EXPECT_EQ(difference({facts("ssgd", "8", "1"), facts("ssgd", "8", "1")}), "");
  EXPECT_EQ(difference({{}, {}}), "");
}

TEST(RollCall, NamesTheFactTheValuesAndTheRanks) {
  EXPECT_EQ(difference({facts("ssgd", "8", "1"), facts("ssgd", "9", "1"), facts("ssgd", "9", "2"),
                        facts("ssgd", "8", "2")}),
            "--hidden is 8 on ranks 0;3, 9 on ranks 1-2; --seed is 1 on ranks 0-1, 2 on ranks 2-3");
  EXPECT_EQ(difference({facts("ssgd", "", "1"), facts("ssgd", "9", "1")}),
            "--hidden is empty on rank 0, 9 on rank 1");
}

TEST(RollCall, NothingFollowsFromWhatDecidesTheRest) {
  EXPECT_EQ(difference({facts("ssgd", "8", "1"), facts("asgd", "9", "2")}),
            "--algorithm is ssgd on rank 0, asgd on rank 1");
}

TEST(RollCall, WhoDoesNotSayItDiffers) {
  EXPECT_EQ(difference({facts("ssgd", "8", "1"), {}}),
            "--algorithm is ssgd on rank 0, unknown on rank 1");
}

TEST(RollCall, ShowsTheFirstFewAndCountsTheRest) {
  std::vector<Fact> zeros, ones;
  for (int i = 0; i < 6; ++i) {
    zeros.push_back({std::string("--o") + std::to_string(i), "0"});
    ones.push_back({std::string("--o") + std::to_string(i), "1"});
  }
  const std::string text = difference({zeros, ones});
  EXPECT_NE(text.find("--o3 is 0 on rank 0, 1 on rank 1; and 2 more"), std::string::npos) << text;
  EXPECT_EQ(text.find("--o4"), std::string::npos) << text;
}

}  // namespace
}  // namespace hetsgd
