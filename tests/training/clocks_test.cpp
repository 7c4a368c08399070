// The ledger of wall-clock time, and the contents of a run's clocks. The tests check only
// properties of any machine under any load: sums, and which of two times is the larger.

#include "cluster/profile.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

const Settings kReal = tiny(
    "ssgd", "--cluster threads --devices cpu:1 --workers 2 --max-samples 960 --evaluate-every 320");

void expect_ledger(const PhaseTimes& phases) {
  EXPECT_NEAR(phases.sum_s(), phases.total_s, 1e-9 * (1 + phases.total_s));
}

TEST(Ledger, PhasesAddUpToTheWallTime) {
  for (const char* algorithm : {"ssgd", "adpsgd"}) {  // one model; a mean of replicas
    const Record run = run_with(kReal, {{"algorithm", algorithm}});
    expect_ledger(run.phases);
    EXPECT_GT(run.phases.load_s, 0);
    EXPECT_GT(run.phases.init_s, 0);
    EXPECT_GT(run.phases.prepare_s, 0);
    EXPECT_GT(run.phases.eval_s, 0);
    // The training clock runs only within train_s: any other content would be missing there.
    EXPECT_GE(run.phases.train_s, run.elapsed.count());
  }
}

TEST(Ledger, HoldsWheneverTheResultIsWritten) {
  std::size_t written = 0;
  TrainHooks hooks;
  hooks.on_record = [&](const Record& record) {
    ++written;
    expect_ledger(record.phases);
    EXPECT_EQ(record.phases.train_s == 0, record.curve.size() == 1);
  };
  run_training(kReal, hooks);
  EXPECT_EQ(written, 5U);  // 0, 320, 640, 960 samples, and the end
}

// mlperf = wall_s contains loading, initialisation, training, making the models and measuring.
TEST(Clocks, WallTimeContainsEverything) {
  const Record run = run_training(kReal);
  double begin = 0;
  for (const CurvePoint& point : run.curve) {
    EXPECT_GE(point.measure_begin_s, begin);
    EXPECT_GE(point.wall_s, point.measure_begin_s);
    EXPECT_GE(point.measure_begin_s, run.phases.load_s + point.time.count());
    if (point.samples_count > 0) {
      EXPECT_GE(point.measure_begin_s,
                run.phases.load_s + run.phases.init_s + point.time.count() + point.prepare.count());
    }
    begin = point.wall_s;
  }
  EXPECT_GE(run.phases.total_s, begin);
}

TEST(Clocks, SlowLoadingMovesTheWallTimeAlone) {
  const Configuration configuration(kReal);
  RunData data = load_run_data(configuration.options);
  data.load_s = 1000;  // an hour of this would be too slow a test
  Training training(configuration.spec());
  training.load(data);
  const Record& run = training.run({});
  expect_ledger(run.phases);
  EXPECT_EQ(run.phases.load_s, 1000);
  for (const CurvePoint& point : run.curve) {
    EXPECT_GE(point.wall_s, 1000);
    EXPECT_LT(point.time.count() + point.prepare.count(), 1000);
  }
  EXPECT_LT(run.phases.train_s, 1000);
}

// Writing the record stands for all work that the training clock leaves out.
TEST(Clocks, SlowRecordingMovesTheWallTimeOfWhatFollows) {
  constexpr double kSleep = 0.01;
  TrainHooks hooks;
  hooks.on_record = [&](const Record&) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kSleep));
  };
  const Record run = run_training(kReal, hooks);
  expect_ledger(run.phases);
  EXPECT_GE(run.phases.record_s, kSleep * static_cast<double>(run.curve.size()));
  EXPECT_GE(run.phases.train_s, run.elapsed.count());
  for (std::size_t i = 1; i < run.curve.size(); ++i) {
    EXPECT_GE(run.curve[i].measure_begin_s, run.curve[i - 1].wall_s + kSleep);
  }
}

// In sim a model costs a pass over the n parameters on the host for every replica that it is the
// mean of: n additions, 4n bytes. ssgd has one model, adpsgd one of each worker.
TEST(Clocks, SimulatedPreparationIsChargedByTheReplica) {
  const DeviceProfile host = load_device_profile("xeon-e5-2650v4");
  for (const auto& [algorithm, replicas] : {std::pair("ssgd", 1), std::pair("adpsgd", 3)}) {
    const Record run =
        run_training(tiny(algorithm, "--workers 3 --max-samples 960 --evaluate-every 320"));
    const auto n = static_cast<double>(run.parameters);
    const double pass = host.seconds({.operations = n, .bytes = 4 * n, .launches = 1}).count();
    for (std::size_t i = 0; i < run.curve.size(); ++i) {  // the initial model is there
      EXPECT_NEAR(run.curve[i].prepare.count(), static_cast<double>(i) * replicas * pass, 1e-12)
          << algorithm;
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
