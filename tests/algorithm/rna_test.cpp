// RNA: identity, probes, local accumulation, groups, records, timelines, and learning everywhere.
// Its losses are checked against tests/reference/numpy_decentralised.py.

#include "algorithm/parts/rna_grouping.hpp"
#include "algorithm/parts/rna_hierarchical.hpp"
#include "support/compare.hpp"
#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

const Settings kRna = tiny_steps("rna");

// Every step takes the same time, whatever the nonzeros of its batch.
const Settings kEqualRna = {{"profile", HETSGD_TEST_DATA "/latency_only_profile.json"}};

std::uint64_t total(const Record& run, const std::string& histogram) {
  std::uint64_t sum = 0;
  for (const auto& [value, count] : run.histograms.at(histogram)) sum += count;
  return sum;
}

// All gradients ready: lr (P/P) times the mean of P contributions = ssgd with b_max per worker. The
// factor 1/P comes before the sum in rank order, as in ssgd: the same bits.
TEST(Rna, AllReadyIsSsgd) {
  for (const std::string workers : {"2", "3", "4", "8"}) {
    for (const std::string network : {"pcie3", "ethernet-1g", "ideal"}) {
      SCOPED_TRACE(workers + " workers, " + network);
      const Settings base =
          with(with(kRna, kEqualRna),
               {{"workers", workers}, {"network", network}, {"max_samples", "6400"}});
      const Record ssgd =
          run_training(with(base, {{"algorithm", "ssgd"}, {"per_worker_batch", "full"}}));
      const Record rna = run_training(base);
      expect_same_bits(ssgd, rna);
      EXPECT_EQ(rna.histograms.at("contributors").rbegin()->first, std::stoi(workers));
      EXPECT_EQ(rna.histograms.at("staleness").size(), 1U);
    }
  }
}

// Nobody is late: there are no leftovers that `fresh` and --eta 0 could treat differently.
TEST(Rna, AllReadyIsSsgdWhateverTheTrigger) {
  for (const Settings& reading : {Settings{{"trigger", "fresh"}, {"local", "sum"}},
                                  Settings{{"trigger", "any"}, {"bound", "age"}, {"eta", "0"}}}) {
    for (const std::string workers : {"1", "3", "8"}) {
      SCOPED_TRACE(reading[0].second + ", " + workers + " workers");
      const Settings base = with(with(kRna, kEqualRna), {{"workers", workers}});
      const Record ssgd =
          run_training(with(base, {{"algorithm", "ssgd"}, {"per_worker_batch", "full"}}));
      const Record rna = run_training(with(base, reading));
      expect_same_bits(ssgd, rna);
      EXPECT_EQ(rna.histograms.at("contributors").rbegin()->first, std::stoi(workers));
      EXPECT_EQ(rna.histograms.at("staleness"),
                (std::map<std::int64_t, std::uint64_t>{{0, total(rna, "staleness")}}));
      EXPECT_FALSE(rna.histograms.contains("dropped"));
    }
  }
}

// Computing takes 9 to 29 ms, an all_reduce 60 ms: every round leaves gradients behind.
const Settings kLeftovers =
    with(with(kRna, kEqualRna), {{"network", HETSGD_TEST_DATA "/latency_only_network.json"},
                                 {"straggler", "kind=uniform,min=0ms,max=20ms"},
                                 {"workers", "4"},
                                 {"max_samples", "9600"}});

struct BegunRounds {
  int all = 0;
  int without_fresh = 0;  // no gradient at the newest model was in it
};

// Without the last ones, which begin because workers leave.
BegunRounds begun_rounds(const Record& run) {
  std::map<int, bool> fresh;
  for (const auto& e : events_of(run, "contribution")) {
    for (const auto& age : e["staleness"]) fresh[e["round"].get<int>()] |= age == 0;
  }
  BegunRounds rounds{.all = fresh.rbegin()->first - 2};
  for (int round = 0; round < rounds.all; ++round) rounds.without_fresh += !fresh[round];
  return rounds;
}

// A leftover answers a probe at once, and while its round is reduced the others become leftovers:
// rounds follow each other with gradients that are one round old. `fresh` waits for a new one.
TEST(Rna, ALeftoverBeginsNoRoundOfTheFreshTrigger) {
  const Record any = run_training(kLeftovers);
  EXPECT_GE(begun_rounds(any).all, 40);
  EXPECT_GE(2 * begun_rounds(any).without_fresh, begun_rounds(any).all);
  EXPECT_GT(any.histograms.at("staleness").at(1), any.histograms.at("staleness").at(0));

  const Record fresh = run_training(with(kLeftovers, {{"trigger", "fresh"}}));
  EXPECT_GE(begun_rounds(fresh).all, 40);
  EXPECT_EQ(begun_rounds(fresh).without_fresh, 0);
  EXPECT_GE(fresh.histograms.at("staleness").at(1), 10U);  // leftovers contribute all the same
  EXPECT_FALSE(fresh.histograms.contains("dropped"));
}

// --eta 0: a gradient that a round has passed by is dropped and counted, and so it begins none
// either, whatever the trigger. Each gradient is reduced or dropped, but those of the end.
TEST(Rna, StaleGradientsAreDropped) {
  const Settings base = with(kLeftovers, {{"bound", "age"}, {"eta", "0"}});
  const Record run = run_training(base);
  EXPECT_EQ(begun_rounds(run).without_fresh, 0);
  EXPECT_EQ(run.histograms.at("staleness").rbegin()->first, 0);
  EXPECT_EQ(run.histograms.at("dropped").begin()->first, 1);
  EXPECT_GE(total(run, "dropped"), 10U);
  EXPECT_NEAR(static_cast<double>(total(run, "staleness") + total(run, "dropped")), 9600.0 / 32, 8);
  expect_same_bits(run, run_training(with(base, {{"trigger", "fresh"}})));
  EXPECT_EQ(run_training(with(base, {{"eta", "1"}})).histograms.at("staleness").rbegin()->first, 1);
}

TEST(Rna, AnEtaOfZeroNeedsTheBoundOfAge) {
  try {
    run_training(with(kRna, {{"eta", "0"}}));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()), "--eta: found 0 with --bound count, expected 1 or more");
    EXPECT_EQ(error.hint(), "--bound age --eta 0 drops every gradient that a round has passed by");
  }
}

TEST(Rna, OneWorkerIsSgd) {
  const Record sgd = run_training(with(kRna, {{"algorithm", "sgd"}}));
  const Record rna = run_training(kRna);
  expect_close(step_losses(sgd), step_losses(rna), 1e-5);
  expect_close_curves(sgd, rna, 1e-5);
}

std::vector<double> losses_of(const Record& run, int rank) {
  std::vector<double> losses;
  for (const auto& e : events_of(run, "step")) {
    if (e["rank"] == rank) losses.push_back(e["loss"].get<double>());
  }
  return losses;
}

// The share of contributors is a factor of the rate and not of the gradient (algorithm 5, line 5).
// One of P workers contributes, and every batch is the whole data set, so that it does not matter
// whose it is: g_k = (1/1) g at the rate lr (1/P), whatever the optimizer makes of them. That is
// sgd at lr/P. (With g/P at the rate lr Adam, lars and clipping would be up to P times as fast.)
TEST(Rna, TheShareOfContributorsScalesTheRate) {
  const std::string data = "generate:tiny?rows_train=32&rows_test=8";
  const Settings base =
      with(with(kRna, kEqualRna), {{"train", data}, {"test", data}, {"order", "sequential"}});
  const Settings one_of_four = {
      {"workers", "4"}, {"probes", "4"}, {"straggler", "kind=constant,workers=1-3,factor=100000"}};
  struct Case {
    Settings settings;
    std::string lr, lr_of_one;
  };
  for (const auto& [optimizer, lr, lr_of_one] :
       std::vector<Case>{{{{"optimizer", "momentum"}, {"weight_decay", "0.001"}}, "0.4", "0.1"},
                         {{{"optimizer", "nesterov"}, {"momentum", "0.5"}}, "0.4", "0.1"},
                         {{{"optimizer", "adam"}, {"beta2", "0.99"}}, "0.04", "0.01"},
                         {{{"optimizer", "lars"}, {"momentum", "0.5"}}, "20", "5"},
                         {{{"optimizer", "sgd"}, {"clip_norm", "0.01"}}, "0.4", "0.1"},
                         {{{"optimizer", "sgd"}, {"clip_norm", "0"}}, "0.4", "0.1"}}) {
    SCOPED_TRACE(optimizer.front().second + ", " + optimizer.back().first);
    const Settings mine = with(base, optimizer);
    const Record rna = run_training(with(with(mine, one_of_four), {{"learning_rate", lr}}));
    const Record sgd =
        run_training(with(mine, {{"algorithm", "sgd"}, {"learning_rate", lr_of_one}}));
    std::vector<double> got = losses_of(rna, 0), expected = step_losses(sgd);
    ASSERT_GE(std::min(got.size(), expected.size()), 90U);
    got.resize(90);
    expected.resize(90);
    expect_close(expected, got, 1e-4);
    EXPECT_GE(rna.histograms.at("contributors").at(1), 90U);
  }
}

// One group by hand is no group: the same bits as flat. Equal workers are one group by time, too.
TEST(Rna, OneGroupIsFlat) {
  const Settings base = with(with(kRna, kEqualRna), {{"workers", "4"}});
  const Record flat = run_training(base);
  expect_same_bits(flat, run_training(with(base, {{"hierarchical", "true"}, {"groups", "0-3"}})));
  const Record automatic =
      run_training(with(base, {{"hierarchical", "true"}, {"group_after", "3"}}));
  expect_same_bits(flat, automatic);
  ASSERT_EQ(events_of(automatic, "groups").size(), 1U);
  EXPECT_EQ(events_of(automatic, "groups")[0]["groups"], nlohmann::json({{0, 1, 2, 3}}));
}

// More probes find a faster initiator: rounds take less time (figure 5.7), and contributors get
// fewer.
TEST(Rna, MoreProbesAnswerSooner) {
  std::vector<double> rounds_per_s, contributors;
  for (const std::string q : {"1", "2", "8"}) {
    const Record run = run_training(with(kRna, {{"workers", "8"},
                                                {"probes", q},
                                                {"straggler", "kind=uniform,min=10ms,max=50ms"},
                                                {"max_samples", "25600"},
                                                {"record_steps", "false"}}));
    rounds_per_s.push_back(static_cast<double>(total(run, "contributors")) / run.elapsed.count());
    double sum = 0;
    for (const auto& [value, n] : run.histograms.at("contributors")) {
      sum += static_cast<double>(value) * static_cast<double>(n);
    }
    contributors.push_back(sum / static_cast<double>(total(run, "contributors")));
  }
  EXPECT_GT(rounds_per_s[1], 1.1 * rounds_per_s[0]);
  EXPECT_GT(rounds_per_s[2], rounds_per_s[1]);
  EXPECT_GT(contributors[0], contributors[1]);
  EXPECT_GT(contributors[1], contributors[2]);
}

// Probes are messages: per round one more probe costs two messages to the controller (what answers
// the probe, what waits on) and two back (the probe, the receipt).
TEST(Rna, ProbesCostMessages) {
  const auto control_bytes = [](const std::string& q) {
    const Record run = run_training(with(kRna, {{"workers", "4"}, {"probes", q}}));
    double bytes = 0;
    for (const WorkerRecord& worker : run.workers) {
      bytes += static_cast<double>(
          worker.report.breakdown.bytes_sent[static_cast<std::size_t>(Traffic::control)]);
    }
    return bytes / static_cast<double>(total(run, "contributors"));
  };
  const double one = control_bytes("1"), two = control_bytes("2"), three = control_bytes("3");
  EXPECT_GT(two, one);
  EXPECT_NEAR(three - two, two - one, 1.0);
}

// The straggler's gradients are late by the rounds that passed meanwhile, and never held others up.
TEST(Rna, StragglersContributeLate) {
  const Settings slow =
      with(with(kRna, kEqualRna), {{"workers", "4"},
                                   {"straggler", "kind=constant,worker=2,factor=9"},
                                   {"max_samples", "12800"}});
  const Record count = run_training(slow);
  EXPECT_GE(count.histograms.at("staleness").rbegin()->first, 5);
  EXPECT_FALSE(count.histograms.contains("dropped"));
  const Record age = run_training(with(slow, {{"bound", "age"}, {"eta", "2"}}));
  EXPECT_LE(age.histograms.at("staleness").rbegin()->first, 2);
  EXPECT_GE(age.histograms.at("dropped").begin()->first, 3);
  // Each of its gradients is reduced or dropped; some may be under way at the end.
  EXPECT_LE(total(age, "staleness") + total(age, "dropped"), 12800U / 32 + 8);
  EXPECT_GE(total(age, "staleness") + total(age, "dropped"), 12800U / 32 - 8);
}

// A fast worker that does not wait goes on at the model that it has (figure 5.1, w_1 at t + 2). Its
// contribution then holds several gradients, at most eta; older ones are dropped and counted.
TEST(Rna, AheadAccumulatesUpToEta) {
  const Settings base =
      with(with(kRna, kEqualRna), {{"workers", "2"},
                                   {"probes", "1"},
                                   {"straggler", "kind=constant,worker=1,factor=9"},
                                   {"max_samples", "6400"},
                                   {"network", "ideal"}});
  const auto most = [](const Record& run) {
    std::size_t n = 0;
    for (const auto& e : events_of(run, "contribution")) n = std::max(n, e["iterations"].size());
    return n;
  };
  EXPECT_LE(most(run_training(base)), 2U);  // one late, one at the newest model
  const Record ahead = run_training(with(base, {{"ahead", "0"}}));
  EXPECT_EQ(most(ahead), 4U);
  EXPECT_GT(total(ahead, "dropped"), 0U);
  EXPECT_EQ(most(run_training(with(base, {{"ahead", "0"}, {"eta", "2"}}))), 2U);
  EXPECT_EQ(most(run_training(with(base, {{"ahead", "3"}, {"eta", "100"}}))), 4U);  // one late
}

// A worker that waits for the next model after every gradient has nothing to train locally: a round
// follows each gradient, and the rounds are those without.
TEST(Rna, LocalTrainingChangesNothingWhereEveryGradientIsReduced) {
  for (const Settings& base :
       {with(kLeftovers, {{"ahead", "1"}}), with(with(kRna, kEqualRna), {{"ahead", "1"}})}) {
    const Record without = run_training(base);
    expect_same_bits(without, run_training(with(base, {{"local_training", "true"}})));
  }
}

// The first round takes 80 ms, a step 9 and a local one 1: until the first model comes every worker
// makes steps of its own, each worth its share of the rate. With the whole data set in each batch
// these are sgd at lr/P. Without local training all its gradients are of one model.
TEST(Rna, LocalTrainingIsSgdAtAWorkersShareOfTheRate) {
  const std::string data = "generate:tiny?rows_train=32&rows_test=8";
  const Settings base =
      with(with(kRna, kEqualRna), {{"network", HETSGD_TEST_DATA "/latency_only_network.json"},
                                   {"train", data},
                                   {"test", data},
                                   {"order", "sequential"}});
  const auto first = [](std::vector<double> losses) {
    losses.resize(6);
    return losses;
  };
  const std::vector<double> sgd = first(
      step_losses(run_training(with(base, {{"algorithm", "sgd"}, {"learning_rate", "0.125"}}))));
  const Settings four = with(base, {{"workers", "4"}, {"learning_rate", "0.5"}});
  const Record local = run_training(with(four, {{"local_training", "true"}}));
  const Record ahead = run_training(with(four, {{"ahead", "0"}}));
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<double> got = first(losses_of(local, rank));
    const std::vector<double> same = first(losses_of(ahead, rank));
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(got[i], sgd[i], 1e-5 * sgd[i]) << "rank " << rank << ", step " << i;
      EXPECT_EQ(same[i], same[0]);
    }
    EXPECT_LT(got[5], got[0]);
  }
}

// zeta = max - min > v = mean splits at v; times by hand.
TEST(Rna, GroupsByTime) {
  const auto groups = [](std::vector<double> times) { return groups_by_time(times); };
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

TEST(Rna, GroupsByHandAreRead) {
  EXPECT_EQ(parse_groups("0-3:4-7", 8), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(parse_groups("1;3:0;2", 4), (Groups{{1, 3}, {0, 2}}));
  const auto message = [](const std::string& text, int workers) {
    try {
      parse_groups(text, workers);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("0-2:2-3", 4),
            "--groups: found worker 2 twice in \"0-2:2-3\", expected every worker once");
  EXPECT_EQ(message("0:1", 3),
            "--groups: worker 2 of 3 is in none of \"0:1\", expected every worker once");
  EXPECT_NE(message("0-9", 3).find("--groups"), std::string::npos);
  EXPECT_THROW(run_training(with(kRna, {{"workers", "4"}, {"groups", "0-1:2-3"}})), Error);
}

// Two paces: the groups form themselves, and the fast group is not held up by the slow one.
TEST(Rna, AutomaticGroupsSeparateTwoPaces) {
  const Settings paces =
      with(with(kRna, kEqualRna), {{"workers", "6"},
                                   {"network", "ideal"},
                                   {"straggler", "kind=constant,workers=1;4,factor=20"},
                                   {"hierarchical", "true"},
                                   {"group_after", "5"},
                                   {"max_samples", "12800"}});
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
TEST(Rna, ExchangeEveryH) {
  const Settings base =
      with(kRna, {{"workers", "4"}, {"hierarchical", "true"}, {"groups", "0;2:1;3"}});
  for (const int every : {1, 3}) {
    const Record run = run_training(with(base, {{"exchange_every", std::to_string(every)}}));
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

// The server between groups, called directly: what it answers to a push.
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
TEST(Rna, TheGroupServerAddsUpAllProgress) {
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
        // The mean of what was pushed last: the fast group gets no further than s_f / s_s steps
        // ahead of what the slow one pushed.
        const double before = last.gain(1, 0);
        EXPECT_LE(kept, before + fast / slow);
        last.gain(1, 1);
      }
      EXPECT_EQ(increment.gradients(), 100 + 3 * 20 * (pace + 1));
    }
  }
}

TEST(Rna, TheGroupServerReturnsALoneGroupsModel) {
  for (const GroupRule rule : {GroupRule::increment, GroupRule::last}) {
    GroupPushes alone(rule, {3});
    for (int n = 1; n <= 10; ++n) EXPECT_EQ(alone.gain(0, 0.5F), 0.5F * static_cast<float>(n));
  }
}

// A group that never comes costs its share and no more: x - lr s_g g, which is what flat RNA makes
// of a worker that never has its gradient. (Two probes of two: nobody waits for it there either.)
TEST(Rna, AFrozenGroupHoldsNobodyBack) {
  const Settings base =
      with(with(kRna, kEqualRna),
           {{"workers", "2"}, {"straggler", "kind=constant,worker=1,factor=100000"}});
  const Record flat = run_training(base);
  const Record groups = run_training(with(base, {{"hierarchical", "true"}, {"groups", "0:1"}}));
  expect_close(step_losses(flat), step_losses(groups), 1e-5);
}

// The schedule follows the work of all groups: one that is five times as fast is not five times
// as far in it.
TEST(Rna, GroupsShareTheSchedule) {
  const Settings base =
      with(with(kRna, kEqualRna), {{"train", "generate:tiny?rows_train=320&rows_test=32"},
                                   {"test", "generate:tiny?rows_train=320&rows_test=32"},
                                   {"workers", "2"},
                                   {"straggler", "kind=constant,worker=1,factor=5"},
                                   {"hierarchical", "true"},
                                   {"groups", "0:1"},
                                   {"evaluate_every", "160"},
                                   {"schedule", "step"},
                                   {"step_epochs", "5"},
                                   {"step_factor", "0"}});
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
TEST(Rna, EndsWhileGroupsForm) {
  const std::string data = "generate:tiny?rows_train=64&rows_test=8";
  for (int factor = 5; factor <= 30; ++factor) {
    for (int batches = 6; batches <= 8; ++batches) {
      SCOPED_TRACE(fmt::format("factor {}, {} batches", factor, batches));
      const Record run = run_training(
          with(kRna, {{"train", data},
                      {"test", data},
                      {"workers", "3"},
                      {"profile", HETSGD_TEST_DATA "/latency_only_profile.json"},
                      {"network", HETSGD_TEST_DATA "/latency_only_network.json"},
                      {"straggler", fmt::format("kind=constant,worker=1,factor={}", factor)},
                      {"hierarchical", "true"},
                      {"bound", "age"},
                      {"eta", "1"},
                      {"group_after", "3"},
                      {"evaluate_every", "32"},
                      {"max_samples", std::to_string(32 * batches)}}));
      EXPECT_EQ(run.status, Status::completed);
    }
  }
}

TEST(Rna, Timelines) {
  expect_golden("rna",
                timeline(run_training(with(timeline_settings("rna"), {{"max_samples", "240"}}))));
  expect_golden("rna_hierarchical",
                timeline(run_training(with(
                    timeline_settings("rna"),
                    {{"max_samples", "240"}, {"hierarchical", "true"}, {"groups", "0;2:1"}}))));
}

TEST(Rna, LearnsOnBothClusters) {
  const Settings base = with(kRna, {{"max_samples", "24000"},
                                    {"learning_rate", "1"},
                                    {"record_steps", "false"},
                                    {"straggler", "kind=uniform,min=0ms,max=1ms"}});
  expect_learns_everywhere(base);
  expect_learns_everywhere(
      with(base, {{"local_training", "true"}, {"ahead", "2"}, {"trigger", "fresh"}}));
  expect_learns_everywhere(with(base, {{"hierarchical", "true"},
                                       {"group_after", "3"},
                                       {"straggler", "kind=constant,worker=0,factor=6"}}));
}

}  // namespace
}  // namespace hetsgd::test
