// The measuring of `hetsgd bench`: times on `sim` against the network model, detection of wrong
// results, and correct results of every collective and operator on every cluster.
#include "bench/collective_bench.hpp"

#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

ClusterOptions bench_options(int workers) { return plain_cluster(workers, 1e12, 1e12); }

TEST(CollectiveBench, CountsWhatIsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected = {1, 2, 3, 4};
  EXPECT_EQ(count_wrong(expected, expected, 0), 0U);
  EXPECT_EQ(count_wrong(std::vector<float>{1, 2.125F, nan, 4}, expected, 0), 2U);
  EXPECT_EQ(count_wrong(std::vector<float>{1, 2.125F, nan, 4}, expected, 0.25), 1U);
}

TEST(CollectiveBench, EveryOperatorIsRightOnEveryCluster) {
  for (const std::string& cluster : local_cluster_names()) {
    for (const int workers : {1, 2, 3, 8}) {
      const CollectiveBench bench(cluster, bench_options(workers), 2, 1);
      for (const BenchCollective& collective : bench_collectives()) {
        for (const BenchOperator& op : collective.operators) {
          if (op.place == BenchPlace::gpus || op.place == BenchPlace::mpi) continue;
          SCOPED_TRACE(collective.name + " " + op.name + " on " + cluster);
          const BenchTimes times =
              bench.measure(collective, op, collective.in_parts ? 1008 : 1000, true);
          EXPECT_EQ(times.wrong, 0U);
          ASSERT_EQ(times.time_s.size(), 2U);
          if (workers > 1) {
            EXPECT_GT(times.time_s.front(), 0);
          }
        }
      }
    }
  }
}

// An operator other than the expected one is detected.
TEST(CollectiveBench, FindsAWrongResult) {
  const BenchCollective& collective = bench_collective("all_reduce");
  BenchOperator op = find_bench_operator(collective, "--op", "sum");
  op.expected = find_bench_operator(collective, "--op", "adasum").expected;
  const CollectiveBench bench("sim", bench_options(2), 1, 0);
  const BenchTimes times = bench.measure(collective, op, 1000, true);
  EXPECT_GT(times.wrong, 1000U);
  EXPECT_LE(times.wrong, 2000U);
  EXPECT_EQ(bench.measure(collective, op, 1000, false).wrong, 0U);
}

// The other collectives, whose result is checked in place: a rank's block of a sum, or its own
// buffer.
TEST(CollectiveBench, FindsAWrongPart) {
  const CollectiveBench bench("sim", bench_options(4), 1, 0);
  for (const char* name : {"all_gather", "reduce_scatter", "broadcast", "all_to_all"}) {
    BenchCollective collective = bench_collective(name);
    const BenchOperator op = collective.operators.front();
    collective.part = [](int rank, int, std::size_t count) {
      return BenchCollective::Part{0, rank == 3 ? std::size_t{1} : std::size_t{0}, count - 1};
    };
    EXPECT_GT(bench.measure(collective, op, 1000, true).wrong, 0U) << name;
  }
}

TEST(CollectiveBench, TimesOnSimAreThoseOfTheNetworkModel) {
  const ClusterOptions options = bench_options(4);
  const NetworkModel& network = options.network;
  const CollectiveBench bench("sim", options, 3, 1);
  const auto check = [&](const std::string& name, const std::string& op, double expected) {
    const BenchCollective& collective = bench_collective(name);
    for (const double time_s :
         bench.measure(collective, find_bench_operator(collective, "--op", op), 1000, true)
             .time_s) {
      EXPECT_NEAR(time_s, expected, 1e-9 * expected) << name << " " << op;
    }
  };
  check("all_reduce", "sum", network.all_reduce_cost(4, 4000).count());
  check("all_reduce", "ring", network.all_reduce_cost(4, 4000).count());
  check("all_gather", "none", network.all_gather_cost(4, 1000).count());
  check("reduce_scatter", "sum", network.reduce_scatter_cost(4, 4000).count());
  check("broadcast", "none", network.broadcast_cost(4, 4000).count());
  // A rank keeps its own part.
  check("all_to_all", "blocking", network.all_to_all_cost(4, 3000).count());
  check("all_to_all", "scatter", network.all_to_all_cost(4, 3000).count());
}

TEST(CollectiveBench, FloorIsMeasured) {
  const BenchTimes times = CollectiveBench("threads", bench_options(2), 4, 1).floor(1 << 16);
  ASSERT_EQ(times.time_s.size(), 4U);
  for (const double time_s : times.time_s) EXPECT_GT(time_s, 0);
}

// A second late at every call: the floor, which no call can beat, is of the exchange alone.
TEST(CollectiveBench, FloorHasNoDelays) {
  ClusterOptions options = bench_options(2);
  options.scenario = std::make_shared<const Scenario>(
      std::vector<std::string>{"kind=uniform,min=1s,max=1s"}, 2, 1);
  const CollectiveBench bench("sim", options, 1, 0);
  const BenchCollective& collective = bench_collective("all_to_all");
  const BenchOperator& op = find_bench_operator(collective, "--exchange", "blocking");
  EXPECT_GE(bench.measure(collective, op, 64, true).time_s.front(), 1);
  EXPECT_LT(bench.floor(64).time_s.front(), 1);
  EXPECT_LT(bench.sendrecv(64).time_s.front(), 1);
}

}  // namespace
}  // namespace hetsgd
