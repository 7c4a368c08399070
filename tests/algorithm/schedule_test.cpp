// Every algorithm x every schedule x every optimizer, in sim: the schedule acts, and in time; the
// optimizer acts; no sample is lost. An algorithm joins by its registration alone.

#include "support/compare.hpp"

namespace hetsgd::test::schedule_table {
namespace {

// An epoch is 64 samples: 8 batches. With latencies alone all workers are equal, and so are their
// shares of a mega-batch.
const Settings kTable =
    "--train generate:tiny?rows_train=64&rows_test=16&features=40&labels=8&nonzeros=6 --test "
    "generate:tiny?rows_train=64&rows_test=16&features=40&labels=8&nonzeros=6 --cache false "
    "--hidden 4 --batch-size 8 --mega-batch 16 --max-samples 512 --evaluate-every 64 "
    "--learning-rate 0.05 --lars-trust 1 --record-steps --profile @latency_only_profile --network "
    "ideal";
constexpr double kEpoch = 64, kBatch = 8;

// Settings that make an algorithm's rounds shorter than the run, or make it follow sgd when it is
// alone: its own momentum and corrections off.
const std::map<std::string, Settings> kShortRounds = {{"local-sgd", "--local-steps 4"}};
const std::map<std::string, Settings> kFollowsSgd = {
    {"elastic", "--gamma 0"},  {"adaptive", "--gamma 0"}, {"hogbatch", "--cpu-batch-min 8"},
    {"slide", "--lazy dense"}, {"sma", "--alpha 0"},      {"easgd", "--alpha 0"}};

// The values that a run's option takes.
std::vector<std::string> choices_of(const std::string& option) {
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  return set.find(option)->choices;
}

struct Row {
  std::string algorithm, optimizer;
  int workers;
};

Settings settings_of(const Row& row) {
  Settings settings = with(kTable, "--algorithm {} --optimizer {} --workers {}", row.algorithm,
                           row.optimizer, row.workers);
  const auto more = kShortRounds.find(row.algorithm);
  return more == kShortRounds.end() ? settings : with(settings, more->second);
}

// All rows of the table, those without the optimizers that an algorithm refuses.
std::vector<Row> rows() {
  std::vector<Row> rows;
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (!algorithm.info.sharded_tables_only.empty()) continue;  // sven_test.cpp
    for (const std::string& optimizer : choices_of("optimizer")) {
      const auto& some = algorithm.info.optimizers_only;
      if (optimizer != "sgd" && !algorithm.info.plain_sgd_only.empty()) continue;
      if (!some.empty() && std::ranges::find(some, optimizer) == some.end()) continue;
      rows.push_back({algorithm.info.name, optimizer, std::min(4, algorithm.info.max_workers)});
    }
  }
  return rows;
}

template <class Check>
void for_each_row(Check&& check) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.algorithm + ", " + row.optimizer);
    check(row, settings_of(row));
  }
}

std::vector<double> run(const Settings& settings, const Settings& more) {
  const Record record = run_with(settings, more);
  for (const CurvePoint& point : record.curve) EXPECT_TRUE(std::isfinite(point.test_loss()));
  return test_losses(record);
}

// Every schedule, with and without warm-up: as many different results.
TEST(Schedules, EachActsInEveryAlgorithmWithEveryOptimizer) {
  for_each_row([](const Row&, const Settings& settings) {
    const Settings all =
        with(settings, "--decay-epochs 9 --step-epochs 4 --step-factor 0.5 --inverse-rate 0.2");
    std::map<double, std::string> ends;
    for (const char* warmup : {"0", "3"}) {
      for (const std::string& schedule : choices_of("schedule")) {
        const std::string name = schedule + ", warm-up " + warmup;
        // The end of its warm-up is the only number of inverse_sqrt.
        const bool none = schedule == "inverse_sqrt" && warmup == std::string("0");
        const auto losses = run(
            all, fmt::format("--schedule {} --warmup-epochs {}", schedule, none ? "1" : warmup));
        EXPECT_NE(losses.front(), losses.back()) << name;
        const auto [at, is_new] = ends.emplace(losses.back(), name);
        EXPECT_TRUE(is_new) << name << " ends as " << at->second;
      }
    }
  });
}

// A schedule that never decays is constant, to the bit.
TEST(Schedules, WithoutDecayAllAreConstant) {
  for_each_row([](const Row&, const Settings& settings) {
    const auto constant = run(settings, {});
    EXPECT_EQ(constant, run(settings, "--schedule linear --decay-epochs 1e18"));
    EXPECT_EQ(constant, run(settings, "--schedule polynomial --decay-epochs 1e18"));
    EXPECT_EQ(constant, run(settings, "--schedule step --step-epochs 1e6"));
    EXPECT_EQ(constant, run(settings, "--schedule inverse_time --inverse-rate 0"));
  });
}

// A factor on the schedule is a factor on the learning rate, to the bit; the factor 0 keeps the
// initial model.
TEST(Schedules, AFactorFromTheStartIsALearningRate) {
  for_each_row([](const Row&, const Settings& settings) {
    EXPECT_EQ(run(settings, "--learning-rate 0.025"),
              run(settings, "--schedule step --step-epochs 0 --step-factor 0.5"));
    const auto still = run(settings, "--schedule step --step-epochs 0 --step-factor 0");
    for (const double loss : still) EXPECT_NEAR(loss, still.front(), 1e-6 * still.front());
  });
}

// A step in the middle of a round changes nothing before it, and that round.
TEST(Schedules, AStepActsInItsRound) {
  constexpr double kStep = 3.25 * kEpoch;
  for_each_row([](const Row& row, const Settings& settings) {
    const auto record = [&](const char* factor) {
      return run_with(settings,
                      "--evaluate-every 16 --schedule step --step-epochs 3.25 --step-factor {}",
                      factor);
    };
    const Record before = record("1"), after = record("0");
    ASSERT_EQ(before.curve.size(), after.curve.size());
    for (std::size_t i = 0; i < before.curve.size(); ++i) {
      const auto samples = static_cast<double>(before.curve[i].samples_count);
      const double slack = row.workers * kBatch;  // a batch of every worker
      if (samples <= kStep - slack) {
        EXPECT_EQ(before.curve[i].test_loss(), after.curve[i].test_loss()) << samples << " samples";
      } else if (samples >= kStep + 2 * slack) {
        EXPECT_NE(before.curve[i].test_loss(), after.curve[i].test_loss()) << samples << " samples";
      }
    }
  });
}

// Alone every algorithm is sgd, also step by step of a schedule.
TEST(Schedules, OneWorkerFollowsSgd) {
  const Settings alone = "--workers 1 --schedule linear --warmup-epochs 2 --decay-epochs 7";
  for_each_row([&](const Row& row, const Settings& settings) {
    const auto own = kFollowsSgd.find(row.algorithm);
    const Settings base = with(settings, alone);
    const Record one = run_training(own == kFollowsSgd.end() ? base : with(base, own->second));
    const Record sgd = run_with(settings_of({"sgd", row.optimizer, 1}), alone);
    expect_close(step_losses(sgd), step_losses(one), 1e-4);
  });
}

// ssgd's parts of a global batch may differ (3, 3 and 2 samples). All replicas, and the server,
// still take the same learning rate, that of sgd on the whole batch.
TEST(Schedules, UnevenPartsOfABatchTakeOneRate) {
  const Settings base =
      with(kTable, "--learning-rate 0.5 --schedule linear --warmup-epochs 2 --decay-epochs 7");
  const Settings split = with(base, "--algorithm ssgd --per-worker-batch split --workers 3");
  const Record mirrored = run_training(split);
  expect_same_bits(mirrored, run_with(split, "--storage central"));
  expect_close_curves(run_with(base, "--algorithm sgd --workers 1"), mirrored, 1e-5);
}

// Merges record the learning rate: the plan's, times the schedule, times b_i / b_max.
TEST(Schedules, MergesRecordTheRate) {
  for (const char* name : {"elastic", "adaptive"}) {
    const Record run = run_with(
        kTable, "--algorithm {} --workers 4 --schedule inverse_time --inverse-rate 1", name);
    std::size_t merged = 0;
    for (const auto& merge : merges(run)) {
      const double epoch = static_cast<double>(++merged) * 16 * kBatch / kEpoch;
      EXPECT_DOUBLE_EQ(merge["learning_rate"][0].get<double>(), 0.05 / (1 + epoch)) << name;
    }
    EXPECT_EQ(merged, 4U);
  }
}

TEST(Optimizers, EachActsInEveryAlgorithm) {
  std::map<std::string, std::map<double, std::string>> ends;
  for_each_row([&](const Row& row, const Settings& settings) {
    for (const char* decay : {"0", "0.1"}) {
      const AlgorithmInfo& info = find_algorithm(row.algorithm).info;
      if (row.optimizer == "sgd" && info.plain_sgd_only != "") break;
      if (decay != std::string("0") && !info.optimizers_only.empty()) break;
      const std::string name = row.optimizer + ", decay " + decay;
      const auto [at, is_new] =
          ends[row.algorithm].emplace(run(settings, {{"weight_decay", decay}}).back(), name);
      EXPECT_TRUE(is_new) << name << " ends as " << at->second;
    }
  });
}

}  // namespace
}  // namespace hetsgd::test::schedule_table
