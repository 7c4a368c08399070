// Hierarchical RNA: how groups are made, the server between them, and runs in groups.
// Its losses are checked against tests/reference/numpy_decentralised.py.

#include <cmath>
#include <numeric>

#include "algorithm/parts/groups.hpp"
#include "algorithm/parts/rna_hierarchical.hpp"
#include "core/random.hpp"
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

// Times of 10 iterations with a delay between 0 and 50 ms above a computation of X ms, of the slow
// ones between 50 and 100: zeta is about 50 and v = X + 50. The text has two groups; spread makes
// them by chance at most, gap always, and none of equal workers.
TEST(RnaGroups, GapSplitsTheMixedScenario) {
  const Groups halves = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  const Groups one = {{0, 1, 2, 3, 4, 5, 6, 7}};
  constexpr int kRuns = 200;
  for (const double x_ms : {11.0, 40.0, 150.0}) {
    int split = 0, split_by_spread = 0, equal_split = 0;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
      RandomStream random(seed, Purpose::test);
      const auto paces = [&](double slow_ms) {
        std::vector<WorkerPace> all(8);
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
          std::vector<double> times(10);
          for (double& t : times) t = x_ms + (rank < 4 ? 0 : slow_ms) + random.uniform(0, 50);
          const double mean = std::accumulate(times.begin(), times.end(), 0.0) / 10;
          double squares = 0;
          for (const double t : times) squares += (t - mean) * (t - mean);
          all[rank] = {.time_s = mean, .error_s = std::sqrt(squares / 9 / 10)};
        }
        return all;
      };
      const std::vector<WorkerPace> mixed = paces(50);
      split += groups_by_pace(GroupBy::gap, mixed) == halves;
      split_by_spread += groups_by_pace(GroupBy::spread, mixed) != one;
      equal_split += groups_by_pace(GroupBy::gap, paces(0)) != one;
    }
    EXPECT_GE(split, kRuns * 98 / 100) << x_ms;
    EXPECT_LE(equal_split, kRuns * 2 / 100) << x_ms;
    if (x_ms > 20) {
      EXPECT_EQ(split_by_spread, 0) << x_ms;
    }
  }
}

// The same in a run; and equal workers stay together.
TEST(RnaGroups, AutomaticGroupsByGap) {
  const Settings mixed =
      with(kRnaGroups,
           "--workers 8 --network ideal --straggler kind=uniform,workers=0-3,min=0ms,max=50ms "
           "--straggler kind=uniform,workers=4-7,min=50ms,max=100ms --hierarchical --trigger fresh "
           "--group-after 20 --max-samples 12800");
  const auto groups = [&](const std::string& rule) {
    return events_of(run_with(mixed, {{"group_by", rule}}), "groups").at(0)["groups"];
  };
  EXPECT_EQ(groups("gap"), nlohmann::json({{0, 1, 2, 3}, {4, 5, 6, 7}}));
  const Settings equal = with(kRnaGroups, "--workers 4 --group-by gap");
  expect_same_bits(run_training(equal), run_with(equal, "--hierarchical --group-after 3"));
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

// With equal workers in equal groups that exchange after every round the first exchanges follow
// the formula: checked in NumPy. Here: H sets how often.
TEST(RnaGroups, ExchangeEveryH) {
  const Settings base = with(kRnaGroups, "--workers 4 --hierarchical --groups 0;2:1;3");
  for (const int every : {1, 3}) {
    const Record run = run_with(base, {{"exchange_every", std::to_string(every)}});
    const auto exchanges = events_of(run, "exchange");
    ASSERT_GE(exchanges.size(), 10U);
    std::map<int, int> next = {{0, every - 1}, {1, every - 1}};
    for (const auto& e : exchanges) {
      int& expected = next[e["group"].get<int>()];
      EXPECT_EQ(e["round"].get<int>(), expected);
      expected += every;
      EXPECT_EQ(e["rank"].get<int>() % 2, e["group"].get<int>());
    }
  }
}

// The server between groups, called directly, with its answers to pushes.
class GroupPushes {
 public:
  GroupPushes(GroupRule rule, const std::vector<int>& sizes)
      : server_(rule, sizes, std::vector<float>{0}, 100) {}

  // Group g has moved by `step` since its last pull; it pulls. Returns x.
  float gain(int g, float step) {
    float& x_g = x_[g];
    x_g += step;
    const PushGroup push{.group = g, .gradients = 3};
    server_.handle(g, push, std::span(&x_g, 1),
                   Responder<PullGroups>(std::make_unique<Answer>(x_g, gradients_)));
    return x_g;
  }
  std::int64_t gradients() const { return gradients_; }

 private:
  struct Answer final : ReplyToken {
    Answer(float& x_to, std::int64_t& gradients_to) : x(x_to), gradients(gradients_to) {}
    void answer(std::span<const std::byte> reply, std::span<const float> payload,
                Traffic) override {
      ASSERT_EQ(payload.size(), 1U);
      x = payload.front();
      ASSERT_EQ(reply.size(), sizeof(PullGroups));
      std::memcpy(&gradients, reply.data(), sizeof(PullGroups));
    }
    float& x;
    std::int64_t& gradients;
  };

  GroupServer server_;
  std::map<int, float> x_;
  std::int64_t gradients_ = 0;
};

// A constant gradient: every step is 1. The server adds up all of the groups' work, weighted by
// their sizes, whatever their paces: s_f n_f + s_s n_s. (All numbers are exact.)
TEST(RnaGroups, TheGroupServerAddsUpAllProgress) {
  for (const auto& sizes : {std::vector{4, 4}, std::vector{7, 1}}) {
    const double fast = sizes[0] / 8.0, slow = sizes[1] / 8.0;
    for (const int pace : {1, 2, 10, 70, 1000}) {
      SCOPED_TRACE(fmt::format("{} + {}, pace {}", sizes[0], sizes[1], pace));
      GroupPushes increment(GroupRule::increment, sizes), last(GroupRule::last, sizes);
      for (int n = 1; n <= 20; ++n) {
        double kept = 0;
        for (int k = 0; k < pace; ++k) {
          increment.gain(0, 1);
          kept = last.gain(0, 1);
        }
        EXPECT_EQ(increment.gain(1, 1), fast * pace * n + slow * n);
        // The mean of the last pushes: the fast group gets at most s_f / s_s steps ahead of the
        // slow group's last push.
        const double before = last.gain(1, 0);
        EXPECT_LE(kept, before + fast / slow);
        last.gain(1, 1);
      }
      EXPECT_EQ(increment.gradients(), 100 + 3 * 20 * (pace + 1));
    }
  }
}

TEST(RnaGroups, TheGroupServerReturnsALoneGroupsModel) {
  for (const GroupRule rule : {GroupRule::increment, GroupRule::last}) {
    GroupPushes alone(rule, {3});
    for (int n = 1; n <= 10; ++n) EXPECT_EQ(alone.gain(0, 0.5F), 0.5F * static_cast<float>(n));
  }
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
      const Record run = run_with(
          kRnaGroups,
          "--train {0} --test {0} --workers 3 --profile @latency_only_profile --network "
          "@latency_only_network --straggler kind=constant,worker=1,factor={1} --hierarchical "
          "--bound age --eta 1 --group-after 3 --evaluate-every 32 --max-samples {2}",
          data, factor, 32 * batches);
      EXPECT_EQ(run.status, Status::completed);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
