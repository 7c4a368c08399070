// AD-PSGD: identity, mixing of the replicas, records, timeline, and learning everywhere.
// Its losses are checked against tests/reference/numpy_decentralised.py.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kAdpsgd = tiny_steps("adpsgd");

// Every iteration of an even rank averages once, with an odd rank; every update counts.
TEST(AdPsgd, EvenRanksAverageOncePerIteration) {
  for (const std::string workers : {"2", "3", "8"}) {
    const Record run =
        run_with(kAdpsgd, "--workers {} --straggler kind=uniform,min=0ms,max=5ms", workers);
    std::map<int, int> averagings, iterations, peers;
    for (const auto& e : events_of(run, "average")) {
      const int active = e["active"].get<int>();
      EXPECT_EQ(active % 2, 0);
      EXPECT_EQ(e["passive"].get<int>() % 2, 1);
      EXPECT_EQ(e["iteration"].get<int>(), averagings[active]++);
      ++peers[e["passive"].get<int>()];
    }
    std::uint64_t updates = 0;
    for (const auto& e : events_of(run, "apply")) {
      ++updates;
      if (e["rank"].get<int>() % 2 == 0) ++iterations[e["rank"].get<int>()];
    }
    EXPECT_EQ(averagings, iterations);
    EXPECT_EQ(peers.size(), static_cast<std::size_t>(std::stoi(workers) / 2));
    std::uint64_t counted = 0;
    for (const WorkerRecord& worker : run.workers) counted += worker.updates;
    EXPECT_EQ(counted, updates);
    EXPECT_GE(run.curve.back().updates, 100U);
    // An active replica is averaged exactly once between the reading and the application.
    EXPECT_EQ(observations(run, "staleness"), updates);
    EXPECT_TRUE(run.histograms.contains("iteration_gap"));
  }
}

// A slow worker holds no other up: the others make as many iterations as without it.
TEST(AdPsgd, AStragglerHoldsNobodyUp) {
  const Settings base =
      with(kAdpsgd, "--workers 4 --max-samples 0 --max-time 400ms --profile @latency_only_profile");
  const Record equal = run_training(base);
  for (const std::string slow : {"2", "3"}) {
    const Record run =
        run_with(base, {{"straggler", "kind=constant,worker=" + slow + ",factor=20"}});
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (std::to_string(rank) == slow) {
        EXPECT_LE(run.workers[rank].updates, 4U);
      } else {
        EXPECT_GE(run.workers[rank].updates + 3, equal.workers[rank].updates);
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
