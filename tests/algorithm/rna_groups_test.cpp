// Hierarchical RNA: how groups are made, the server between them, and runs in groups.
// Its losses are checked against tests/reference/numpy_decentralised.py.

#include "algorithm/parts/groups.hpp"
#include "runs.hpp"

namespace hetsgd::test {
namespace {

// Every step takes the same time, whatever the nonzeros of its batch.
const Settings kRnaGroups = tiny_steps("rna", "--profile @latency_only_profile");

std::vector<WorkerPace> exact_paces(const std::vector<double>& times) {
  std::vector<WorkerPace> paces;
  for (const double time : times) paces.push_back({.time_s = time, .error_s = 0});
  return paces;
}

// zeta = max - min > v = mean splits at v; times by hand.
TEST(RnaGroups, GroupsByTime) {
  const auto groups = [](const std::vector<double>& times) {
    return groups_by_pace(GroupBy::spread, exact_paces(times));
  };
  EXPECT_EQ(groups({1, 1, 1, 1}), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(groups({5}), (Groups{{0}}));
  // v = 1.5, zeta = 1: homogeneous. v = 2, zeta = 2: not above v. v = 2.5, zeta = 3: split.
  EXPECT_EQ(groups({1, 2}), (Groups{{0, 1}}));
  EXPECT_EQ(groups({1, 3}), (Groups{{0, 1}}));
  EXPECT_EQ(groups({4, 1}), (Groups{{1}, {0}}));
  // v = 4, zeta = 8: {1, 1, 2} and {8, 8}... ; then {1, 1, 2} has v = 4/3, zeta = 1.
  EXPECT_EQ(groups({8, 1, 1, 8, 2}), (Groups{{1, 2, 4}, {0, 3}}));
  // Recursively: v = 37, zeta = 99: {1, 1, 10, ...} and {100}; then v = 22/5, zeta = 9.
  EXPECT_EQ(groups({1, 100, 1, 10, 100, 10}), (Groups{{0, 2}, {3, 5}, {1, 4}}));
  // Exactly the mean is fast.
  EXPECT_EQ(groups({0, 2, 4}), (Groups{{0}, {1}, {2}}));
}

// The largest gap splits where it exceeds the spread on either side; times by hand.
TEST(RnaGroups, GroupsByGap) {
  const auto groups = [](const std::vector<double>& times) {
    return groups_by_pace(GroupBy::gap, exact_paces(times));
  };
  EXPECT_EQ(groups({1, 1, 1, 1}), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(groups({5}), (Groups{{0}}));
  // Gaps 2, 3, 44, 2, 4: both spreads are smaller, and in each part no gap is.
  EXPECT_EQ(groups({35, 84, 37, 86, 40, 90}), (Groups{{0, 2, 4}, {1, 3, 5}}));
  // Gaps 2, 3, 4, 4: before the first 4 the times spread by 5.
  EXPECT_EQ(groups({35, 37, 40, 44, 48}), (Groups{{0, 1, 2, 3, 4}}));
  // Exactly as wide as a spread: 2 | 2.
  EXPECT_EQ(groups({10, 12, 14}), (Groups{{0, 1, 2}}));
  // Recursively: 1 1.005 | 10 10.05 | 100.
  EXPECT_EQ(groups({1.005, 10, 100, 1, 10.05}), (Groups{{0, 3}, {1, 4}, {2}}));
  // A gap of a tenth of the mean makes no group.
  EXPECT_EQ(groups({100, 110}), (Groups{{0, 1}}));
  EXPECT_EQ(groups({100, 112}), (Groups{{0}, {1}}));
  // A gap within three standard errors of the difference makes no group: 3 hypot(3, 4) = 15.
  EXPECT_EQ(groups_by_pace(GroupBy::gap, std::vector<WorkerPace>{{100, 3}, {114.9, 4}}),
            (Groups{{0, 1}}));
  EXPECT_EQ(groups_by_pace(GroupBy::gap, std::vector<WorkerPace>{{100, 3}, {115.1, 4}}),
            (Groups{{0}, {1}}));
}

// Delays of 0 to 50 ms and of 50 to 100 ms make two groups. Equal workers stay together, by either
// rule.
TEST(RnaGroups, AutomaticGroupsByGap) {
  const Settings mixed =
      with(kRnaGroups,
           "--workers 8 --network ideal --straggler kind=uniform,workers=0-3,min=0ms,max=50ms "
           "--straggler kind=uniform,workers=4-7,min=50ms,max=100ms --hierarchical --trigger fresh "
           "--group-after 20 --max-samples 12800 --group-by gap");
  EXPECT_EQ(events_of(run_training(mixed), "groups").at(0)["groups"],
            nlohmann::json({{0, 1, 2, 3}, {4, 5, 6, 7}}));
  for (const char* rule : {"gap", "spread"}) {
    const Settings equal = with(kRnaGroups, "--workers 4 --group-by {}", rule);
    const Record grouped = run_with(equal, "--hierarchical --group-after 3");
    expect_same_bits(run_training(equal), grouped);
    EXPECT_EQ(events_of(grouped, "groups").at(0)["groups"], nlohmann::json({{0, 1, 2, 3}}));
  }
}

TEST(RnaGroups, GroupsByHandAreRead) {
  EXPECT_EQ(parse_groups("0-3:4-7", 8), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(parse_groups("1;3:0;2", 4), (Groups{{1, 3}, {0, 2}}));
  const auto message = [](const std::string& text, int workers) {
    return usage_error_of([&] { parse_groups(text, workers); });
  };
  EXPECT_EQ(message("0-2:2-3", 4),
            "--groups: found worker 2 twice in \"0-2:2-3\", expected every worker once");
  EXPECT_EQ(message("0:1", 3),
            "--groups: worker 2 of 3 is in none of \"0:1\", expected every worker once");
  EXPECT_NE(message("0-9", 3).find("--groups"), std::string::npos);
  EXPECT_THROW(run_with(kRnaGroups, {{"workers", "4"}, {"groups", "0-1:2-3"}}), Error);
}

// Two paces: the groups form themselves, and the fast group is not held up by the slow one.
TEST(RnaGroups, AutomaticGroupsSeparateTwoPaces) {
  const Settings paces =
      with(kRnaGroups,
           "--workers 6 --network ideal --straggler kind=constant,workers=1;4,factor=20 "
           "--hierarchical --group-after 5 --max-samples 12800");
  const Record run = run_training(paces);
  ASSERT_EQ(events_of(run, "groups").size(), 1U);
  EXPECT_EQ(events_of(run, "groups")[0]["groups"], nlohmann::json({{0, 2, 3, 5}, {1, 4}}));
  std::map<int, int> exchanges;
  for (const auto& e : events_of(run, "exchange")) ++exchanges[e["group"].get<int>()];
  EXPECT_GE(exchanges[0], 10 * exchanges[1]);
  EXPECT_GE(exchanges[1], 3);
  EXPECT_LT(run.curve.back().test_loss(), run.curve.front().test_loss());
}

// A group that never comes costs its share and no more: x - lr s_g g, as in flat RNA with a worker
// that never has its gradient. (With two probes of two no worker waits for it there either.)
TEST(RnaGroups, AFrozenGroupHoldsNobodyBack) {
  const Settings base =
      with(kRnaGroups, "--workers 2 --straggler kind=constant,worker=1,factor=100000");
  const Record flat = run_training(base);
  const Record groups = run_with(base, "--hierarchical --groups 0:1");
  expect_close(step_losses(flat), step_losses(groups), 1e-5);
}

// The schedule follows the work of all groups: one that is five times as fast is not five times
// as far in it.
TEST(RnaGroups, GroupsShareTheSchedule) {
  const Settings base =
      with(kRnaGroups,
           "--train generate:tiny?rows_train=320&rows_test=32 --test "
           "generate:tiny?rows_train=320&rows_test=32 --workers 2 --straggler "
           "kind=constant,worker=1,factor=5 --hierarchical --groups 0:1 --evaluate-every 160 "
           "--schedule step --step-epochs 5 --step-factor 0");
  const Record run = run_training(base);
  ASSERT_GE(run.curve.size(), 15U);
  for (std::size_t i = 1; i + 1 < run.curve.size(); ++i) {
    const std::uint64_t samples = run.curve[i].samples_count;
    const bool same = run.curve[i].test_loss() == run.curve[i - 1].test_loss();
    if (samples >= 5 * 320 && samples <= 5 * 320 + 2 * 160) continue;
    EXPECT_EQ(same, samples > 5 * 320) << samples;
  }
}

// Runs that end while groups form, with a worker that leaves its loop just then and has nothing to
// contribute (its gradient is too old): its farewell must reach the controller that it gets.
TEST(RnaGroups, EndsWhileGroupsForm) {
  const std::string data = "generate:tiny?rows_train=64&rows_test=8";
  for (int factor = 5; factor <= 30; ++factor) {
    for (int batches = 6; batches <= 8; ++batches) {
      SCOPED_TRACE(fmt::format("factor {}, {} batches", factor, batches));
      run_with(kRnaGroups,
               "--train {0} --test {0} --workers 3 --profile @latency_only_profile --network "
               "@latency_only_network --straggler kind=constant,worker=1,factor={1} --hierarchical "
               "--bound age --eta 1 --group-after 3 --evaluate-every 32 --max-samples {2}",
               data, factor, 32 * batches);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
