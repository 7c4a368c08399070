// Workers that are lost and return (training/segmented_run.hpp): every method goes on without them.
// In sim, which runs on one thread; threads_failures_test.cpp has real ones.

#include "core/error.hpp"
#include "support/effort.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// --- every method --------------------------------------------------------------------------------

class Methods : public testing::TestWithParam<const char*> {
 protected:
  Settings settings() const {
    return tiny(GetParam(),
                "--workers 4 --max-samples 9600 --evaluate-every 1280 --mega-batch 8 "
                "--learning-rate 0.3 --detect 1ms --straggler kind=uniform,min=0ms,max=2ms");
  }
};

TEST_P(Methods, GoOnWithoutALostWorkerAndTakeItBack) {
  const Settings lost = with(settings(), "--straggler kind=fail,worker=2,at=30ms");
  const Record gone = run_training(lost);
  const Record run = run_with(lost, "--straggler kind=return,worker=2,at=60ms");
  for (const Record* const each : {&gone, &run}) {
    ASSERT_EQ(each->failures.size(), 1U);
    EXPECT_LT(each->curve.back().test_loss(), each->curve.front().test_loss());
  }
  EXPECT_EQ(gone.failures[0].worker, 2);
  EXPECT_NEAR(gone.failures[0].failed.count(), 0.030, 1e-12);
  EXPECT_NEAR(gone.failures[0].detected.count(), 0.031, 1e-12);
  EXPECT_FALSE(gone.failures[0].returned);
  EXPECT_GT(gone.workers[0].samples, gone.workers[2].samples);
  ASSERT_TRUE(run.failures[0].returned);
  EXPECT_GE(*run.failures[0].returned, Seconds(0.060));
  EXPECT_GT(run.workers[2].samples, gone.workers[2].samples);
}

// Whatever dies when: the run ends and the model has learnt. Survivors of esync begin their round
// anew after each loss, so a round must fit between two losses of four workers.
TEST_P(Methods, SurviveChurn) {
  for (int seed = 1; seed <= effort(5, 1, 1); ++seed) {
    SCOPED_TRACE(seed);
    const Record run =
        run_with(settings(), "--straggler kind=churn,mtbf=60ms,mttr=6ms --seed {}", seed);
    EXPECT_TRUE(run.status == Status::completed) << to_string(run.status) << run.status_reason;
    EXPECT_GE(run.failures.size(), 2U);
    EXPECT_TRUE(std::isfinite(run.curve.back().test_loss()));
    EXPECT_LT(run.curve.back().test_loss(), run.curve.front().test_loss());
  }
}

TEST_P(Methods, RestartFromTheLastCut) {
  const Record run = run_with(settings(),
                              "--straggler kind=fail,worker=2,at=40ms --straggler "
                              "kind=return,worker=2,at=50ms --on-loss restart --restart-time 3ms "
                              "--checkpoint-at 1280,2560,3840");
  ASSERT_EQ(run.failures.size(), 1U);
  EXPECT_NEAR(run.failures[0].returned->count(), 0.053, 1e-12);
  for (std::size_t i = 1; i < run.curve.size(); ++i) {
    EXPECT_GE(run.curve[i].samples_count, run.curve[i - 1].samples_count);
    EXPECT_GE(run.curve[i].time, run.curve[i - 1].time);
  }
}

// All samples that were computed = learnt by the model + lost + learnt from again, up to the steps
// that are under way at the end and at each loss.
TEST_P(Methods, CountEverySample) {
  for (const char* const on_loss : {"continue", "restart --checkpoint-at 2560,5120"}) {
    for (int seed = 1; seed <= effort(4, 1, 1); ++seed) {
      SCOPED_TRACE(on_loss);
      SCOPED_TRACE(seed);
      const Record run =
          run_with(settings(), "--straggler kind=churn,mtbf=60ms,mttr=6ms --on-loss {} --seed {}",
                   on_loss, seed);
      const double under_way = 4.0 * 32 * static_cast<double>(1 + run.failures.size());
      EXPECT_NEAR(static_cast<double>(kept_samples(run)),
                  static_cast<double>(run.curve.back().samples_count), under_way);
    }
  }
}

// Also when the others have used up the budget, and when it has left itself: every run ends with a
// model that is measured at its whole budget.
TEST_P(Methods, LoseAWorkerAboutTheEnd) {
  const Seconds end = run_training(settings()).curve.back().time;
  for (int step = -13; step < 4; step += effort(1, 4, 4)) {
    const double at_ms = 1e3 * end.count() + 0.6 * step;
    SCOPED_TRACE(at_ms);
    const Record run = run_with(settings(), "--straggler kind=fail,worker=1,at={:.3f}ms", at_ms);
    EXPECT_TRUE(run.status == Status::completed) << to_string(run.status);
    EXPECT_GE(run.curve.back().samples_count, 9600U);
    EXPECT_LE(run.failures.size(), 1U);
  }
}

// Without worker 2 a quarter of the labels is missing, unless its rows are shared.
TEST(Failures, TheOthersMayTakeOverTheRows) {
  const auto loss_with = [](const char* orphans) {
    const Record run = run_with(
        tiny("ssgd",
             "--workers 4 --max-samples 64000 --evaluate-every 6400 --partition label_sorted "
             "--learning-rate 0.3 --straggler kind=fail,worker=2,at=0s"),
        "--orphans {}", orphans);
    return run.curve.back().test_loss();
  };
  EXPECT_LT(loss_with("share"), 0.95 * loss_with("wait"));
}

// A worker that was away has an old model in its memory when it returns. The common one must not
// suffer from it: it comes as close as the worse of the runs of four workers and of three, since
// some methods make longer rounds with fewer workers. (Sanitizers see each mode once.)
TEST_P(Methods, AreNotSpoiltByStaleCopies) {
  const auto loss_of = [&](int workers, const std::string& more) {
    double sum = 0;
    for (int seed = 1; seed <= effort(2, 1, 1); ++seed) {
      const Record run = run_with(settings(), "--workers {} --max-samples 25600 --seed {} {}",
                                  workers, seed, more);
      EXPECT_TRUE(run.status == Status::completed) << to_string(run.status);
      sum += run.curve.back().test_loss();
    }
    return sum / 2;
  };
  const double bound = kSanitized ? INFINITY : 1.03 * std::max(loss_of(4, ""), loss_of(3, ""));
  const std::string churn = "--straggler kind=churn,mtbf=80ms,mttr=10ms,mode=";
  for (const char* const mode :
       {"killed --detect 1ms", "cut_off --detect 1ms", "stopped --detect 20ms"}) {
    SCOPED_TRACE(mode);
    EXPECT_LT(loss_of(4, churn + mode), bound);
  }
}

// The iteration in which the worker is lost is made again in all modes. In that of a worker that
// was cut off it had come to the end of its own batch.
TEST(Failures, AWorkerThatIsCutOffComputesToTheEnd) {
  const auto lost = [](const char* mode) {
    const Record run = run_with(
        tiny("ssgd",
             "--workers 3 --max-samples 9600 --evaluate-every 1280 --detect 5ms --straggler "
             "kind=uniform,min=10ms,max=10ms,worker=1"),
        "--straggler kind=fail,worker=1,at=55ms,mode={}", mode);
    EXPECT_EQ(run.failures.size(), 1U);
    EXPECT_EQ(to_string(run.failures.at(0).mode), mode);
    return run.failures.at(0).lost_samples;
  };
  EXPECT_EQ(lost("killed"), 0U);
  EXPECT_EQ(lost("stopped"), 0U);
  EXPECT_EQ(lost("cut_off"), 32U);
}

// The mathematics of a synchronous method are those of the run without the failure, which is over
// later by as much at most.
TEST(Failures, AShortAbsenceIsOnlyAWait) {
  const Settings settings =
      tiny("ssgd",
           "--workers 3 --max-samples 9600 --evaluate-every 1280 --detect 10ms --straggler "
           "kind=uniform,min=1ms,max=2ms");
  const Record whole = run_training(settings);
  for (const char* const mode : {"stopped", "cut_off"}) {
    SCOPED_TRACE(mode);
    const Record run = run_with(settings,
                                "--straggler kind=fail,worker=1,at=10.5ms,mode={} --straggler "
                                "kind=return,worker=1,at=18.5ms",
                                mode);
    EXPECT_TRUE(run.failures.empty());
    EXPECT_EQ(run.curve.back().test_loss(), whole.curve.back().test_loss());
    const double later_s = (run.curve.back().time - whole.curve.back().time).count();
    EXPECT_GT(later_s, 0.004);
    EXPECT_LE(later_s, 0.008 + 1e-12);
  }
}

// Such a worker has lost its state all the same, and joins.
TEST(Failures, AWorkerMayBeBackBeforeTheOthersKnow) {
  const Record run = run_training(
      tiny("ssgd",
           "--workers 3 --max-samples 9600 --evaluate-every 1280 --detect 5ms --straggler "
           "kind=fail,worker=1,at=3ms --straggler kind=return,worker=1,at=4ms"));
  ASSERT_EQ(run.failures.size(), 1U);
  EXPECT_NEAR(run.failures[0].failed.count(), 0.003, 1e-12);
  ASSERT_TRUE(run.failures[0].returned);
  EXPECT_GE(*run.failures[0].returned, Seconds(0.008));
  EXPECT_GT(run.failures[0].state_bytes, 0);
}

// A restart has all workers, also if another one is lost while the run waits or restarts.
TEST(Failures, ARestartWaitsUntilAllLive) {
  const auto restarted = [](const char* other) {
    const Record run = run_with(
        tiny("ssp",
             "--workers 4 --max-samples 9600 --evaluate-every 1280 --detect 1ms --on-loss restart "
             "--restart-time 10ms --straggler kind=uniform,min=0ms,max=2ms --straggler "
             "kind=fail,worker=2,at=40ms --straggler "
             "kind=return,worker=2,at=50ms"),
        "--straggler kind=fail,worker=1,{}", other);
    EXPECT_EQ(run.failures.size(), 1U);
    return run.failures.at(0).returned.value_or(Seconds(0)).count();
  };
  EXPECT_NEAR(restarted("at=45ms --straggler kind=return,worker=1,at=58ms"), 0.068, 1e-12);
  EXPECT_NEAR(restarted("at=55ms --straggler kind=return,worker=1,at=70ms"), 0.080, 1e-12);
}

TEST(Failures, AllMayBeLostAtTheStart) {
  for (const char* const on_loss : {"continue", "restart"}) {
    SCOPED_TRACE(on_loss);
    const Record run = run_with(
        tiny("adpsgd",
             "--workers 2 --max-samples 6400 --evaluate-every 1280 --detect 1ms --restart-time 1ms "
             "--straggler kind=fail,at=0s --straggler kind=return,worker=0,at=20ms --straggler "
             "kind=return,worker=1,at=30ms"),
        "--on-loss {}", on_loss);
    EXPECT_EQ(run.failures.size(), 2U);
    EXPECT_GT(run.workers[1].samples, 0U);
  }
}

// Otherwise the others would train on for ever in a round that it never begins.
TEST(Failures, EsyncAwaitsNoLostWorker) {
  for (const char* const ack : {"immediate", "delayed"}) {
    for (double at_ms = 0.1; at_ms < 3; at_ms += 0.2) {
      SCOPED_TRACE(at_ms);
      const Record run = run_with(
          tiny("esync",
               "--workers 4 --max-samples 6400 --evaluate-every 1280 --detect 0.1ms --speed "
               "1,0.5,0.3,0.2"),
          "--ack {} --straggler kind=fail,worker=3,at={}ms", ack, at_ms);
      EXPECT_LT(run.workers[0].samples, 6400U);
    }
  }
}

// The server has heard of the loss by then, and counts the worker's clock no more.
TEST(Failures, APushMayArriveAfterItsWorkerIsLost) {
  for (int k = 1; k <= 40; ++k) {
    SCOPED_TRACE(k);
    const Record run = run_with(
        tiny(
            "ssp",
            "--workers 3 --max-samples 6400 --evaluate-every 1280 --detect 0.001ms --learning-rate "
            "0.1 --network ethernet-1g"),
        "--straggler kind=fail,worker=1,at={}ms", 0.5 + 0.01 * k);
    EXPECT_EQ(run.failures.size(), 1U);
  }
}

// Steps are longer than absences here, so that workers come back while others return into a round
// that a loss has cut. It is completed first; else its steps would count nowhere.
TEST(Failures, ARoundThatIsCutIsCompleted) {
  for (const char* const algorithm : {"ssgd", "elastic", "adaptive", "local-sgd"}) {
    for (int seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", algorithm, seed));
      const Record run = run_with(
          tiny(algorithm,
               "--workers 4 --max-samples 9600 --evaluate-every 1280 --mega-batch 40 --detect 1ms "
               "--learning-rate 0.3 --straggler kind=uniform,min=4ms,max=8ms"),
          "--straggler kind=churn,mtbf=100ms,mttr=6ms --seed {}", seed);
      EXPECT_EQ(kept_samples(run), run.curve.back().samples_count);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, Methods,
                         testing::Values("ssgd", "elastic", "adaptive", "local-sgd", "sma", "easgd",
                                         "esync", "asgd", "dc-asgd", "ssp", "adpsgd", "eager-solo",
                                         "eager-majority", "rna", "hogwild", "hogbatch"));

class SynchronousFailures : public testing::TestWithParam<const char*> {};

// Workers are numbered from 0, so without the last one the others are what they are without it.
TEST_P(SynchronousFailures, LosingTheLastAtTheStartIsHavingOneLess) {
  const Settings settings =
      tiny(GetParam(), "--max-samples 3840 --evaluate-every 960 --mega-batch 6 --record-steps");
  const Record lost = run_with(settings, "--workers 4 --straggler kind=fail,worker=3,at=0s");
  const Record less = run_with(settings, "--workers 3");
  EXPECT_EQ(step_losses(lost), step_losses(less));
  EXPECT_EQ(times(lost), times(less));
  EXPECT_EQ(test_losses(lost), test_losses(less));
}

// The work that is done again is the same: the losses are those of the run without a failure, to
// the bit. Sharded tables go back to the cut, too, and so do those of the start.
TEST(Failures, ARestartRepeatsTheMathematics) {
  const std::string clicks =
      "--train generate:ctr-tiny --test generate:ctr-tiny --min-frequency 5 --model deepfm "
      "--embedding-dim 8 --hidden 16,8 --learning-rate 0.05 ";
  for (const std::string& more :
       {std::string("--algorithm ssgd --learning-rate 0.3"), clicks + "--algorithm ssgd",
        clicks + "--algorithm ssgd --tables sharded",
        clicks + "--algorithm ssgd --tables sharded --table-capacity 600",
        clicks + "--algorithm sven --tables sharded"}) {
    SCOPED_TRACE(more);
    const Settings settings =
        with(tiny("ssgd",
                  "--workers 2 --max-samples 6400 --evaluate-every 640 --detect 1ms --straggler "
                  "kind=uniform,min=1ms,max=2ms"),
             more);
    const Record whole = run_with(settings, "--checkpoint-at 1280,3840");
    const double end_ms = 1e3 * whole.curve.back().time.count();
    for (const double part : {0.1, 0.3, 0.7}) {
      SCOPED_TRACE(part);
      const Record run = run_with(settings,
                                  "--checkpoint-at 1280,3840 --on-loss restart --straggler "
                                  "kind=fail,worker=1,at={0}ms --straggler "
                                  "kind=return,worker=1,at={1}ms",
                                  part * end_ms, (part + 0.01) * end_ms);
      ASSERT_EQ(run.failures.size(), 1U);
      EXPECT_GT(run.failures[0].redone_samples, 0U);
      // Worker 0 has waited for the restart.
      const TimeBreakdown& spent = run.workers[0].report.breakdown;
      EXPECT_NEAR((spent.compute + spent.communicate + spent.wait).count(),
                  run.curve.back().time.count(), 0.01 * run.curve.back().time.count());
      std::map<std::uint64_t, double> expected;
      for (const CurvePoint& point : whole.curve) {
        expected[point.samples_count] = point.test_loss();
      }
      EXPECT_EQ(run.curve.back().test_loss(), whole.curve.back().test_loss());
      for (const CurvePoint& point : run.curve) {
        EXPECT_EQ(point.test_loss(), expected[point.samples_count]) << point.samples_count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, SynchronousFailures,
                         testing::Values("ssgd", "elastic", "adaptive", "local-sgd", "sma", "easgd",
                                         "esync"));

TEST(Failures, EndARunThatCannotGoOn) {
  const Settings settings =
      tiny("ssgd", "--workers 2 --max-samples 9600 --evaluate-every 1280 --detect 1ms");
  EXPECT_THAT(
      failure_of_run(with(settings, "--straggler kind=fail,worker=1,at=5ms --on-loss abort")),
      HasSubstr("worker 1 was lost"));
  EXPECT_THAT(
      failure_of_run(with(settings, "--straggler kind=fail,worker=1,at=5ms --on-loss restart")),
      HasSubstr("worker 1 was lost and never returns"));
  EXPECT_THAT(failure_of_run(with(settings, "--straggler kind=fail,at=5ms")),
              HasSubstr("all workers were lost"));
  EXPECT_THAT(
      failure_of_run(with(settings, "--straggler kind=churn,mtbf=1ms,mttr=1ms --on-loss restart")),
      HasSubstr("after 1000 losses in a row the run still stands at 0 samples"));
  EXPECT_THAT(failure_of_run(with(settings,
                                  "--workers 9 --straggler kind=churn,mtbf=1ms,mttr=20ms --on-loss "
                                  "restart")),
              HasSubstr("there was no time at which all 9 workers lived"));
}

TEST(Failures, SgdStandsStillUntilItsWorkerReturns) {
  const Record run = run_training(
      tiny("sgd",
           "--workers 1 --max-samples 3200 --evaluate-every 640 --detect 1ms --straggler "
           "kind=fail,at=5ms --straggler kind=return,at=40ms --checkpoint-at 640"));
  EXPECT_GE(run.curve.back().time, Seconds(0.040));
}

}  // namespace
}  // namespace hetsgd::test
