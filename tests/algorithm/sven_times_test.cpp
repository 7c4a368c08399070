// The time of one of Sven's intervals in virtual time, in closed form: stages are given their
// seconds by a fitted charge, exchanges follow from the network.

#include "support/clicks.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

// Seconds of the stages; each all_to_all moves `rows` bytes per rank and direction, its own part
// included, between 4 workers with links of 1 GB/s and 0.1 ms.
struct StageSeconds {
  double ids, sfp, fp, bp, sbp, opt;
  double rows = 4e6;
  double parameters = 1e6;

  static constexpr double kLatency = 1e-4, kRate = 1e9;
  static constexpr int kWorkers = 4;
  double a2a() const { return kLatency + (kWorkers - 1) * rows / kWorkers / kRate; }
  double all_reduce() const {
    return 2 * (kWorkers - 1) * (kLatency + 4 * parameters / kWorkers / kRate);
  }
  // Equation 6.1. The request is exchanged in two calls, of lengths and of numbers.
  double input() const { return sfp + a2a() + fp + bp + all_reduce() + opt + a2a() + sbp; }
  double none() const { return ids + 2 * kLatency + input(); }
  // Equation 6.2.
  double full() const {
    return std::max(sfp + fp, a2a()) + std::max(bp, a2a()) + std::max(all_reduce(), sbp) + opt;
  }
  double computing() const { return sfp + fp + bp + sbp + opt; }
  double communicating() const { return 2 * a2a() + all_reduce(); }
};

// Per interval, once the pipeline is full.
double interval_s(const StageSeconds& s, const Settings& more) {
  const TemporaryFile charge(
      "sven_charge",
      fmt::format(R"({{"name": "test", "parameters": {}, "rows_bytes": {}, "stages_s": )"
                  R"({{"ids": {}, "sfp": {}, "fp": {}, "bp": {}, "sbp": {}, "opt": {}}}}})",
                  s.parameters, s.rows, s.ids, s.sfp, s.fp, s.bp, s.sbp, s.opt));
  const TemporaryFile network(
      "sven_network", fmt::format(R"({{"name": "test", "latency_s": {}, "bytes_per_s": {}, )"
                                  R"("server_latency_s": 0, "server_bytes_per_s": 1e9}})",
                                  StageSeconds::kLatency, StageSeconds::kRate));
  const auto elapsed = [&](int intervals) {
    const Settings base = sharded_clicks(
        fmt::format("--algorithm sven --cache false --workers {} --batch-size 4 --learning-rate "
                    "0.01 --max-samples {} --evaluate-every 1000000 --charge {} --network {}",
                    StageSeconds::kWorkers, 16 * intervals, charge.path(), network.path()));
    return run_with(base, more).elapsed.count();
  };
  return (elapsed(40) - elapsed(20)) / 20;
}

// Both sides of each maximum of equation 6.2 are the longer one in some of these.
const StageSeconds kStages[] = {
    {.ids = 7e-3, .sfp = 1e-3, .fp = 1e-3, .bp = 5e-3, .sbp = 9e-3, .opt = 5e-4},
    {.ids = 1e-3, .sfp = 3e-3, .fp = 2e-3, .bp = 1e-3, .sbp = 2e-3, .opt = 0},
    {.ids = 0, .sfp = 1e-3, .fp = 0, .bp = 2e-3, .sbp = 1e-3, .opt = 1e-3, .rows = 2e7},
    {.ids = 2e-3, .sfp = 8e-3, .fp = 9e-3, .bp = 2e-2, .sbp = 7e-3, .opt = 1e-3},
};

TEST(SvenTimes, AreThoseOfThePapersEquations) {
  for (const StageSeconds& s : kStages) {
    for (const char* exchange : {"scatter", "blocking"}) {
      SCOPED_TRACE(exchange);
      const auto measured = [&](const char* pipeline) {
        return interval_s(s, fmt::format("--pipeline {} --exchange {}", pipeline, exchange));
      };
      EXPECT_NEAR(measured("none"), s.none(), 1e-9 * s.none());
      EXPECT_NEAR(measured("input"), s.input(), 1e-9 * s.input());
      EXPECT_NEAR(measured("full"), s.full(), 1e-9 * s.full());
    }
  }
}

// Waiting only for what is needed: never later than by stages, never earlier than all computing or
// all communicating; where computing takes longest by far, exactly that.
TEST(SvenTimes, JoinedByDataTheLongerOfComputingAndCommunicating) {
  for (const StageSeconds& s : kStages) {
    const double time = interval_s(s, "--join data");
    EXPECT_LE(time, s.full() * (1 + 1e-9));
    EXPECT_GE(time, std::max(s.computing(), s.communicating()) * (1 - 1e-9));
  }
  EXPECT_NEAR(interval_s(kStages[3], "--join data"), kStages[3].computing(),
              1e-9 * kStages[3].computing());
  EXPECT_NEAR(interval_s(kStages[2], "--join data"), kStages[2].communicating(),
              1e-9 * kStages[2].communicating());
}

// With nothing to hide and requests that cost nothing the pipeline gains nothing.
TEST(SvenTimes, OnAnIdealNetworkThePipelineGainsNothing) {
  StageSeconds s = kStages[1];
  s.ids = 0;
  s.rows = s.parameters = 1000;  // the ideal network's 1e18 bytes/s show elsewhere
  const double none = interval_s(s, "--pipeline none --network ideal");
  EXPECT_NEAR(none, s.computing(), 1e-9 * none);
  EXPECT_NEAR(interval_s(s, "--network ideal"), none, 1e-9 * none);
}

// 16 samples per interval: at 800 samples/s an interval takes 20 ms, whatever the stages do.
TEST(SvenTimes, TheInputLimitsTheRate) {
  EXPECT_NEAR(interval_s(kStages[1], "--input-rate 800"), 0.02, 1e-9);
}

// Times of a worker's stages: as given, in every interval.
TEST(SvenTimes, StagesAreInTheRecord) {
  const Record record =
      run_training(sharded_clicks("--algorithm sven --cache false --workers 2 --batch-size 8 "
                                  "--pipeline none --max-samples 160 --charge sven-dcn"));
  for (const WorkerRecord& worker : record.workers) {
    EXPECT_NEAR(worker.stages[Stage::sbp].count(), 10 * 38.4e-3, 1e-12);
    EXPECT_NEAR(worker.stages[Stage::bp].count(), 10 * 11.5e-3, 1e-12);
    EXPECT_GT(worker.stages[Stage::f_exchange].count(), 0);
    EXPECT_EQ(worker.stages[Stage::stall].count(), 0);
    double sum = 0;
    for (std::size_t i = 0; i < kStageNames.size(); ++i) {
      sum += worker.stages[static_cast<Stage>(i)].count();
    }
    EXPECT_NEAR(sum, record.elapsed.count(), 1e-9);
  }
  EXPECT_EQ(record.charge["fitted"], "sven-dcn");
}

// The paper's machine: 128 GPUs in 16 nodes. The simulation gives the four times per model to which
// a charge was fitted, and the times that follow: ms per iteration of none, input and full at 16
// nodes, and of full at one.
TEST(SvenTimes, OfThePapersMachineAreThoseThatWereFitted) {
  const struct {
    const char* charge;
    double none, input, full, one_node;
  } models[] = {{"sven-deepfm", 31.9, 28.4, 22.8, 18.7},
                {"sven-wd", 89.5, 70.7, 52.6, 35.8},
                {"sven-dcn", 101.9, 85.6, 67.9, 55.7}};
  for (const auto& model : models) {
    SCOPED_TRACE(model.charge);
    const auto ms = [&](const char* pipeline, int workers) {
      const auto elapsed = [&](int intervals) {
        return run_training(sharded_clicks(fmt::format(
                                "--algorithm sven --cache false --workers {} --batch-size 1 "
                                "--max-samples {} --evaluate-every 1000000 --charge {} --network "
                                "dgx-a100 --exchange blocking --pipeline {}",
                                workers, workers * intervals, model.charge, pipeline)))
            .elapsed.count();
      };
      return 1e3 * (elapsed(10) - elapsed(6)) / 4;
    };
    EXPECT_NEAR(ms("none", 128), model.none, 0.01 * model.none);
    EXPECT_NEAR(ms("input", 128), model.input, 0.01 * model.input);
    EXPECT_NEAR(ms("full", 128), model.full, 0.01 * model.full);
    EXPECT_NEAR(ms("full", 8), model.one_node, 0.01 * model.one_node);
  }
}

}  // namespace
}  // namespace hetsgd::test
