// The referee: budgets, targets, evaluation cadence, divergence, interruption, determinism.

#include "training/training.hpp"

#include "core/error.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

const Settings kBase = tiny("ssgd", "--workers 2");

// Worker 1 comes late to an asynchronous run whose result is the mean of the replicas.
class Late final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    Replica replica = self.replica();
    if (self.rank() == 1) self.endpoint().sleep(Seconds(0.2));
    self.publish(replica.w);
    while (self.running()) {
      self.learn(replica, self.batches().next(b), self.learning_rate(b));
      self.evaluate_mean_here();
    }
    self.comm().barrier();
  }
};

const bool late_registered = register_algorithm<Late>({.name = "late",
                                                       .title = "",
                                                       .idea = "",
                                                       .paper = "",
                                                       .cost = "",
                                                       .result = "",
                                                       .synchronous = false});

std::vector<std::uint64_t> samples_of(const Record& record) {
  std::vector<std::uint64_t> samples;
  for (const CurvePoint& point : record.curve) samples.push_back(point.samples_count);
  return samples;
}

TEST(Referee, EvaluatesAtEveryMultipleAndAtTheEnd) {
  const Record run =
      run_with(kBase, "--per-worker-batch split --evaluate-every 320 --max-samples 1000");
  EXPECT_EQ(samples_of(run), (std::vector<std::uint64_t>{0, 320, 640, 960, 1024}));
  EXPECT_TRUE(std::isnan(run.curve.front().train_loss));
  EXPECT_EQ(run.curve.back().updates, 32U);
  EXPECT_DOUBLE_EQ(run.curve[1].epoch_num, 320.0 / static_cast<double>(run.train->rows()));
}

TEST(Referee, AReplicaThatIsNotPublishedYetIsTheInitialModel) {
  ASSERT_TRUE(late_registered);
  for (const char* cluster : {"sim", "threads"}) {
    const Record run = run_with(
        kBase, "--algorithm late --cluster {} --evaluate-every 32 --max-samples 64", cluster);
    EXPECT_EQ(samples_of(run), (std::vector<std::uint64_t>{0, 32, 64})) << cluster;
    EXPECT_NE(run.curve[1].test_loss(), run.curve[0].test_loss()) << cluster;
  }
}

TEST(Referee, EpochsAreABudgetOfSamples) {
  const Record run = run_with(kBase, "--per-worker-batch split --epochs 0.5 --evaluate-every 10M");
  const std::uint64_t half = run.train->rows() / 2;
  EXPECT_GE(run.curve.back().samples_count, half);
  EXPECT_LT(run.curve.back().samples_count, half + 32);
}

TEST(Referee, TheLastMegaBatchIsCutToTheBudget) {
  for (const char* algorithm : {"elastic", "adaptive"}) {
    const Record run =
        run_with(kBase, "--algorithm {} --mega-batch 20 --max-samples 1000", algorithm);
    EXPECT_EQ(samples_of(run), (std::vector<std::uint64_t>{0, 640, 1024})) << algorithm;
  }
}

TEST(Referee, StopsByTrainingTime) {
  const Record run = run_with(kBase, "--max-time 20ms");
  EXPECT_GE(run.elapsed.count(), 0.020);
  EXPECT_LT(run.elapsed.count(), 0.022);
  EXPECT_EQ(run.curve.back().time, run.elapsed);
}

TEST(Referee, ASignalAbortsBothClusters) {
  for (const char* cluster : {"sim", "threads"}) {
    std::atomic<int> signal = 0;
    TrainHooks hooks;
    hooks.signal = &signal;
    hooks.on_record = [&](const Record& record) {
      if (record.curve.size() == 3) signal = 2;
    };
    const Record run =
        run_training(with(kBase, "--cluster {} --evaluate-every 320 --max-samples 1G", cluster),
                     hooks, Status::aborted);
    EXPECT_GE(run.curve.size(), 3U);
  }
}

TEST(Referee, WhoComesFirstMovesNoBitOfTheTrainingLoss) {
  const auto losses = [](const char* slow) {
    std::vector<double> all;
    const Record run = run_with(kBase,
                                "--workers 3 --max-samples 1920 --evaluate-every 640 "
                                "--straggler kind=constant,factor=3,worker={}",
                                slow);
    for (std::size_t i = 1; i < run.curve.size(); ++i) all.push_back(run.curve[i].train_loss);
    return all;
  };
  EXPECT_EQ(losses("0"), losses("1"));
  EXPECT_EQ(losses("0"), losses("2"));
}

// The set-up counts: here its last part, the first measurement, takes longer than the limit.
TEST(Referee, TheSetUpIsPartOfTheTimeLimit) {
  TrainHooks hooks;
  hooks.on_record = [](const Record& record) {
    if (record.curve.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  };
  const Record run =
      run_training(with(kBase, "--time-limit 100ms --epochs 1"), hooks, Status::time_limit);
  EXPECT_EQ(run.curve.size(), 1U);
}

TEST(Referee, TheFirstMeasurementShowsInTheProgress) {
  bool seen = false;
  TrainHooks hooks;
  hooks.on_progress = [&](const Progress& progress) {
    seen = seen || (progress.measuring_s > 0 && progress.samples_count == 0);
  };
  const Record run =
      run_training(tiny("sgd", "--hidden 8192 --max-samples 32 --progress-every 1ms"), hooks);
  if (run.phases.eval_s < 0.4) GTEST_SKIP() << "measured faster than the progress is looked at";
  EXPECT_TRUE(seen);
}

TEST(Referee, HostThreadsDoNotChangeABit) {
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (algorithm.info.max_workers < 4) continue;
    if (!algorithm.info.sharded_tables_only.empty()) continue;
    const Settings base =
        with(kBase,
             "--algorithm {} --workers 4 --mega-batch 16 --max-samples 2048 --record-steps "
             "--speed 1,0.92,0.84,0.76 --straggler kind=uniform,min=0ms,max=5ms",
             algorithm.info.name);
    const Record one = run_with(base, "--host-threads 1");
    // A loaded host: two threads spin while the second run goes.
    std::atomic<bool> stop = false;
    std::thread load([&] {
      while (!stop) {
      }
    });
    const Record two = run_with(base, "--host-threads 3");
    stop = true;
    load.join();
    EXPECT_EQ(one.events.dump(), two.events.dump()) << algorithm.info.name;
    EXPECT_EQ(times(one), times(two));
    EXPECT_EQ(test_losses(one), test_losses(two));
    EXPECT_EQ(one.elapsed, two.elapsed);
  }
}

TEST(Referee, WorkerTimesAddUp) {
  const Record run = run_with(kBase, "--workers 3 --max-samples 3200 --speed 1,0.5,0.25");
  for (const WorkerRecord& worker : run.workers) {
    const TimeBreakdown& l = worker.report.breakdown;
    const double sum = l.compute.count() + l.communicate.count() + l.wait.count();
    EXPECT_NEAR(sum, run.elapsed.count(), 1e-9 + 0.01 * run.elapsed.count());
  }
  EXPECT_GT(run.workers[2].report.breakdown.compute, 3 * run.workers[0].report.breakdown.compute);
}

// No worker learns from rows that are held out.
TEST(Referee, MeasuresOnHeldOutTrainingRows) {
  const Settings base = with(kBase, {{"test", ""}, {"validation", "0.1"}, {"epochs", "1"}});
  const Record one = run_with(base, "--per-worker-batch split");
  EXPECT_EQ(one.train->rows(), 1800U);
  EXPECT_EQ(one.test->rows(), 200U);
  EXPECT_GE(one.curve.back().samples_count, 1800U);  // an epoch of the rows that are left
  EXPECT_LT(one.curve.back().samples_count, 1800U + 32);
  EXPECT_TRUE(one.warnings.empty());
}

}  // namespace
}  // namespace hetsgd::test
