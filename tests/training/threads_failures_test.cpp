// Workers on threads that are lost and return (cluster/segment.hpp).

#include <string_view>

#include "support/effort.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

TEST(ThreadsFailures, RunsOnThreadsGoOn) {
  for (const char* const algorithm :
       {"ssgd", "elastic", "adaptive", "sma", "asgd", "adpsgd", "eager-solo", "rna", "hogwild"}) {
    SCOPED_TRACE(algorithm);
    const Record run = run_training(
        tiny(algorithm,
             "--cluster threads --devices cpu:1 --workers 3 --max-samples 96000 --evaluate-every "
             "9600 --mega-batch 8 --detect 5ms --straggler kind=fail,worker=1,at=10ms --straggler "
             "kind=return,worker=1,at=20ms --learning-rate 0.1"));
    EXPECT_EQ(run.failures.size(), 1U);
    EXPECT_LT(run.curve.back().test_loss(), run.curve.front().test_loss());
  }
}

// A loss at any moment leaves all survivors before a merge or all behind it: else their next
// collectives differ, or samples are missing.
TEST(ThreadsFailures, TearNoMergeApart) {
  const Settings settings =
      "--workers 4 --cluster threads --devices cpu:1 --max-samples 19200 --evaluate-every 1920 "
      "--mega-batch 8 --learning-rate 0.1 --detect 0.1ms --straggler "
      "kind=churn,mttr=2ms,mtbf=" +
      std::to_string(effort(150, 300, 1000)) + "ms";
  for (const char* const algorithm :
       {"ssgd", "ssgd --reduce adasum", "elastic", "adaptive", "local-sgd", "sma", "easgd", "esync",
        "esync --ack delayed", "eager-majority", "rna", "rna --hierarchical --groups 0-1:2-3"}) {
    for (int seed = 1; seed <= effort(2, 1, 1); ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", algorithm, seed));
      const Record run =
          run_with(tiny("ssgd", settings), "--algorithm {} --seed {}", algorithm, seed);
      EXPECT_GE(run.curve.back().samples_count, 19200U);
      const double under_way = 4.0 * 32 * static_cast<double>(1 + run.failures.size());
      EXPECT_NEAR(static_cast<double>(kept_samples(run)),
                  static_cast<double>(run.curve.back().samples_count), under_way);
    }
  }
}

TEST(ThreadsFailures, ThreadsWaitForAShortAbsence) {
  for (const char* const algorithm : {"ssgd", "asgd", "adpsgd", "eager-solo"}) {
    for (const char* const mode : {"stopped", "cut_off"}) {
      SCOPED_TRACE(fmt::format("{}, {}", algorithm, mode));
      const Record run = run_with(
          tiny(algorithm,
               "--cluster threads --devices cpu:1 --workers 3 --max-samples 32000 "
               "--evaluate-every 3200 --detect 5s --straggler kind=return,worker=1,at=30ms "
               "--learning-rate 0.1"),
          "--straggler kind=fail,worker=1,at=10ms,mode={}", mode);
      EXPECT_TRUE(run.failures.empty());
      // The others of an asynchronous method may be through before it is back.
      if (std::string_view(algorithm) == "ssgd") {
        EXPECT_GE(run.curve.back().time, Seconds(0.030));
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
