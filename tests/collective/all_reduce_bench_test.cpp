// The measuring of `hetsgd bench all_reduce`: times on `sim` against the network model, what counts
// as wrong, and every operator right on every cluster.
#include "collective/all_reduce_bench.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "collective/plain_cluster.hpp"
#include "core/error.hpp"

namespace hetsgd {
namespace {

ClusterOptions bench_options(int workers) { return plain_cluster(workers, 1e12, 1e12); }

TEST(AllReduceBench, CountsWhatIsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected = {1, 2, 3, 4};
  EXPECT_EQ(count_wrong(expected, expected, 0), 0U);
  EXPECT_EQ(count_wrong(std::vector<float>{1, 2.125F, nan, 4}, expected, 0), 2U);
  EXPECT_EQ(count_wrong(std::vector<float>{1, 2.125F, nan, 4}, expected, 0.25), 1U);
}

TEST(AllReduceBench, EveryOperatorIsRightOnEveryCluster) {
  for (const std::string& cluster : local_cluster_names()) {
    for (const int workers : {1, 2, 3, 8}) {
      const AllReduceBench bench(cluster, bench_options(workers), 2, 1);
      for (const BenchOperator& op : bench_operators()) {
        if (op.place == BenchPlace::gpus || op.place == BenchPlace::mpi) continue;
        SCOPED_TRACE(op.name + " on " + cluster);
        const BenchTimes times = bench.measure(op, 1000, true);
        EXPECT_EQ(times.wrong, 0U);
        ASSERT_EQ(times.time_s.size(), 2U);
        if (workers > 1) {
          EXPECT_GT(times.time_s.front(), 0);
        }
      }
    }
  }
}

// An operator that is not the one expected is found out.
TEST(AllReduceBench, FindsAWrongResult) {
  BenchOperator op = find_bench_operator("--op", "sum");
  op.expected = find_bench_operator("--op", "adasum").expected;
  const BenchTimes times = AllReduceBench("sim", bench_options(2), 1, 0).measure(op, 1000, true);
  EXPECT_GT(times.wrong, 1000U);
  EXPECT_LE(times.wrong, 2000U);
  EXPECT_EQ(AllReduceBench("sim", bench_options(2), 1, 0).measure(op, 1000, false).wrong, 0U);
}

TEST(AllReduceBench, TimesOnSimAreThoseOfTheNetworkModel) {
  const ClusterOptions options = bench_options(4);
  const AllReduceBench bench("sim", options, 3, 1);
  const double expected = options.network.all_reduce_cost(4, 4000).count();
  for (const char* op : {"sum", "ring"}) {
    for (const double time_s : bench.measure(find_bench_operator("--op", op), 1000, true).time_s) {
      EXPECT_NEAR(time_s, expected, 1e-9 * expected) << op;
    }
  }
}

TEST(AllReduceBench, FloorIsMeasured) {
  const BenchTimes times = AllReduceBench("threads", bench_options(2), 4, 1).floor(1 << 16);
  ASSERT_EQ(times.time_s.size(), 4U);
  for (const double time_s : times.time_s) EXPECT_GT(time_s, 0);
}

TEST(AllReduceBench, UnknownOperator) {
  try {
    find_bench_operator("--op", "adasun");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.hint(), "did you mean \"adasum\"?");
  }
}

}  // namespace
}  // namespace hetsgd
