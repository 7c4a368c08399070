// slide: identities with sgd, the same bits on both clusters, recall, refusals.

#include "algorithm/parts/slide_state.hpp"
#include "cluster/devices.hpp"
#include "model/mlp.hpp"
#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kSlide = tiny_steps("slide",
                                   "--optimizer sgd --hash-codes 2 --hash-tables 8 --bin 4 "
                                   "--active-min 10 --rehash 10 --rebuild 40");

// All labels active: the softmax is whole, and so is its gradient.
TEST(Slide, AllLabelsActiveIsSgd) {
  const Settings base = with(kSlide, "--active all");
  const Settings sgd = tiny_steps("sgd");
  expect_close(step_losses(run_training(sgd)), step_losses(run_training(base)), 1e-5);
  const Settings adam = "--optimizer adam --learning-rate 0.01";
  expect_close(step_losses(run_with(sgd, adam)),
               step_losses(run_with(with(base, adam), "--lazy dense")), 1e-4);
}

// The tables retrieve no label, but the fill holds all.
TEST(Slide, ActiveMinOfAllLabelsIsSgd) {
  const Record run = run_with(kSlide, "--active-min 1000");
  expect_close(step_losses(run_training(tiny_steps("sgd"))), step_losses(run), 1e-4);
}

// One core in sim and in threads: one order of everything. With several cores, the order of cores.
TEST(Slide, TheSameBitsEachTime) {
  const Settings adam = with(kSlide, "--optimizer adam --learning-rate 0.01");
  for (const char* hash : {"dwta", "simhash"}) {
    const Settings base = with(adam, {{"hash", hash}});
    const Record sim = run_training(base);
    expect_same_bits(sim, run_with(base, "--cluster threads"));
    if (available_cores().size() < 2) continue;
    const Settings cores = with(base, "--cluster threads --devices cpu:2");
    expect_same_bits(run_training(cores), run_training(cores));
  }
}

TEST(Slide, AtHalfTheRatesTheSameRunTakesTwiceAsLong) {
  const Settings base = with(kSlide, "--profile @compute_only_profile");
  const Record whole = run_training(base), half = run_with(base, "--efficiency 0.5");
  expect_same_bits(whole, half);
  EXPECT_NEAR(half.elapsed / whole.elapsed, 2, 1e-9);
}

// Rehashes after 0, 10, 20 ... batches, new functions from 40, 80.
TEST(Slide, RehashesAndRebuildsBySchedule) {
  const Record run = run_training(kSlide);
  std::vector<bool> rebuilt;
  for (const auto& event : events_of(run, "rehash")) rebuilt.push_back(event["rebuilt"]);
  EXPECT_EQ(rebuilt,
            (std::vector<bool>{true, false, false, false, true, false, false, false, true, false}));
}

// Learning brings labels and activations together: tables find true labels more often than as many
// random labels would.
TEST(Slide, RecallIsAboveChanceOnceItHasLearnt) {
  const Record run = run_with(
      kSlide, "--max-samples 12800 --optimizer adam --learning-rate 0.01 --record-steps false");
  const auto last = events_of(run, "recall").back();
  EXPECT_GT(last["train_recall"].get<double>(), 1.2 * last["train_random"].get<double>());
  EXPECT_GT(last["recall"][0].get<double>(), 1.2 * last["random"].get<double>());
  EXPECT_GT(metric_of(run.curve.back(), "p1").value(), 0.3);
}

// Recall is measured at every evaluation, also with one label. With signs of one sum each, in 64
// tables every label shares some bucket with its query, except with probability 2^-64. So
// everything is found, also at random.
TEST(Slide, RecallIsMeasuredAtEveryEvaluation) {
  const Record all =
      run_with(kSlide, "--hash simhash --hash-codes 1 --hash-tables 64 --hash-bucket 0");
  const auto events = events_of(all, "recall");
  ASSERT_EQ(events.size(), all.curve.size() - 1);  // the initial model has no tables
  for (const auto& event : events) {
    EXPECT_EQ(event["k"], (std::vector<int>{1, 5, 10}));
    EXPECT_EQ(event["recall"], (std::vector<double>{1, 1, 1}));
    EXPECT_EQ(event["random"], 1);
    EXPECT_EQ(event["train_recall"], 1);
    EXPECT_EQ(event["probed"], 256);
  }
  const auto some = events_of(run_with(kSlide, "--probe 7"), "recall");
  EXPECT_EQ(some.front()["probed"], 7);
  EXPECT_LT(some.front()["random"].get<double>(), 0.9);
  EXPECT_EQ(events_of(run_with(kSlide, "--probe 0"), "recall").front()["probed"], 0);
  EXPECT_TRUE(events_of(run_with(kSlide, "--active all"), "recall").empty());
}

// Probing is off the clock and moves nothing. Rows that are behind catch up on the clock, so that
// more evaluations take longer; rows that are up to date do not.
TEST(Slide, WhatAnEvaluationTakes) {
  const Settings adam = with(kSlide, "--optimizer adam --learning-rate 0.01");
  const Record base = run_training(adam);
  const Record blind = run_with(adam, "--probe 0");
  expect_same_bits(base, blind);
  EXPECT_EQ(base.elapsed, blind.elapsed);
  const auto longer = [&](const char* lazy) {
    const Settings some = with(adam, {{"lazy", lazy}});
    return run_with(some, "--evaluate-every 64").elapsed -
           run_with(some, "--evaluate-every 3200").elapsed;
  };
  EXPECT_GT(longer("catch_up").count(), 0);
  EXPECT_EQ(longer("touched").count(), 0);
}

// A histogram has a value for each sample, or for each batch.
TEST(Slide, HistogramsCountSamplesAndBatches) {
  const Record run = run_training(kSlide);
  EXPECT_EQ(observations(run, "active"), 3200U);
  EXPECT_EQ(observations(run, "retrieved"), 3200U);
  EXPECT_EQ(observations(run, "blind"), 100U);
  EXPECT_EQ(run.histograms.at("staleness"), (std::map<std::int64_t, std::uint64_t>{{0, 100}}));
}

TEST(Slide, HasDefaultsOfItsOwn) {
  const Settings bare =
      "--train generate:tiny --test generate:tiny --cache false --hidden 16 --max-samples 256 "
      "--algorithm slide";
  const nlohmann::json config = run_training(bare).config;
  EXPECT_EQ(config["optimizer"], "adam");
  EXPECT_EQ(config["learning_rate"], 1e-4);
  EXPECT_EQ(config["batch_size"], 128);
  const nlohmann::json given = run_with(bare, "--optimizer sgd --batch-size 16").config;
  EXPECT_EQ(given["optimizer"], "sgd");
  EXPECT_EQ(given["batch_size"], 16);
}

// --- several workers: Hogwild --------------------------------------------------------------------

const Settings kSharedSlide = with(
    kSlide, "--optimizer adam --learning-rate 0.01 --workers 4 --profile @latency_only_profile");

// Four equal workers begin and end together: from the second round on each misses three updates.
TEST(Slide, StalenessOfEqualWorkersIsOneLessThanTheirNumber) {
  const auto staleness =
      run_with(kSharedSlide, "--active all --evaluate-every 3200").histograms.at("staleness");
  EXPECT_EQ(staleness.rbegin()->first, 3);
  for (int late = 0; late < 3; ++late) EXPECT_EQ(staleness.at(late), 1U);
}

// Rehashes follow the count of the model's batches over all workers: after 0, 10, 20 ... The four
// workers overrun the budget by the batches in flight.
TEST(Slide, SeveralWorkersRehashByTheModelsBatches) {
  const Record run = run_training(kSharedSlide);
  const auto rehashes = events_of(run, "rehash");
  std::uint64_t updates = 0;
  for (const WorkerRecord& worker : run.workers) updates += worker.updates;
  EXPECT_GE(updates, 100U);
  EXPECT_LE(updates, 104U);
  EXPECT_GE(rehashes.size(), 10U);
  EXPECT_LE(rehashes.size(), 11U);
  for (std::size_t i = 0; i < rehashes.size(); ++i) EXPECT_EQ(rehashes[i]["rehash"], i + 1);
}

// With several cores a worker's cores share its labels while another worker's do, on the same rows.
TEST(Slide, LearnsOnBothClusters) {
  std::vector<std::string> runs = {"--cluster threads --workers 2 --devices cpu:2"};
  for (const std::string& cluster : learning_clusters()) {
    for (const char* workers : {"1", "2", "4"}) {
      runs.push_back(fmt::format("--cluster {} --workers {}", cluster, workers));
    }
  }
  for (const std::string& each : runs) {
    SCOPED_TRACE(each);
    const Record run = run_with(with(kSharedSlide, each), "--max-samples {} --record-steps false",
                                learning_samples(19'200));
    if (kSanitized) continue;
    EXPECT_GT(metric_of(run.curve.back(), "p1").value(), 0.3);
  }
}

// One worker replaces the old tables by new ones; with several the others use the old ones
// meanwhile.
TEST(Slide, OneWorkerHasOneSetOfTables) {
  class FreeMonitor final : public Monitor {
    void lock_raw() override {}
    void unlock_raw() override {}
    void wait_raw(const std::function<bool()>& ready, std::string_view) override {
      EXPECT_TRUE(ready());
    }
    void notify_all_raw() override {}
  };
  const auto device = make_cpu_device<float>(1);
  const HashedLabels every_batch{.rehash = 1};
  const auto model = make_mlp<float>(
      {20, 30},
      {.hidden = {16}, .labels = {.objective = ScoredLabels::hashed, .hashing = every_batch}});
  const auto w = initial_parameters<float>(model->layout(), 1);
  const SlideOptions options;
  for (const int workers : {1, 2}) {
    SlideState state(*model, options, {.kind = OptimizerKind::adam}, 1, workers,
                     std::make_unique<FreeMonitor>());
    const auto rehash = state.begin_rehash();
    ASSERT_TRUE(rehash);
    state.publish(state.make_index(*rehash, &w[state.shape().weight],
                                   kernels<BasicHostCores<float>>(*device)));
    const std::weak_ptr<const LabelIndex> tables = state.index();
    EXPECT_FALSE(state.begin_rehash());  // not due
    state.clock.end(state.clock.begin(0.1));
    EXPECT_FALSE(tables.expired());
    const auto next = state.begin_rehash();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->hash, rehash->hash);  // the functions stay
    EXPECT_EQ(tables.expired(), workers == 1);
  }
}

// A model is refused when it is loaded.
TEST(Slide, RefusesWhatItCannotDo) {
  const std::string kHidden = "--model: found a model without exactly one hidden layer";
  for (const auto& [more, message] : std::vector<std::pair<Settings, std::string>>{
           {{{"optimizer", "momentum"}}, "--optimizer: found momentum"},
           {{{"optimizer", "adam"}, {"weight_decay", "0.1"}}, "--weight-decay 0.1"},
           {{{"bin", "17"}}, "--bin: found 17, expected at most the 16 units"},
           {{{"hidden", "16,16"}}, kHidden},
           {{{"model", "linear"}}, kHidden},
           {{{"hash_codes", "24"}}, "--hash-codes: found 24"},
           {{{"objective", "full"}}, "--objective: found full, expected hashed"},
           {{{"objective", "sampled"}}, "--objective: found sampled, expected hashed"}}) {
    expect_refused(with(kSlide, more), message);
  }
}

}  // namespace
}  // namespace hetsgd::test
