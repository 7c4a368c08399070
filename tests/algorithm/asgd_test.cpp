// asgd: identities, golden timeline, both clusters.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kAsgd = tiny_steps("asgd");

// Between a pull and the next push every other of P equal workers pushes once: staleness P - 1.
TEST(Asgd, StalenessOfEqualWorkersIsOneLessThanTheirNumber) {
  const Record run = run_with(kAsgd, "--workers 4 --learning-rate 0.1");
  const auto& staleness = run.histograms.at("staleness");
  const std::uint64_t pushes = observations(run, "staleness");
  EXPECT_EQ(pushes, run.curve.back().updates + 4 - 1);  // three more ended after the last point
  // The first push of each and the last ones see fewer.
  EXPECT_GE(staleness.at(3), pushes - 4);
  EXPECT_EQ(staleness.rbegin()->first, 3);
}

// A push costs as many parameter-sized messages as it should: n gradients up, n parameters down.
TEST(Asgd, CountsBytesByKind) {
  const Record run = run_with(kAsgd, "--workers 2");
  for (const WorkerRecord& worker : run.workers) {
    const std::uint64_t n_bytes = 4 * run.parameters * worker.updates;
    const TimeBreakdown& breakdown = worker.report.breakdown;
    EXPECT_EQ(breakdown.bytes_sent[static_cast<std::size_t>(Traffic::gradients)], n_bytes);
    EXPECT_EQ(breakdown.bytes_received[static_cast<std::size_t>(Traffic::parameters)], n_bytes);
    EXPECT_EQ(breakdown.bytes_sent[static_cast<std::size_t>(Traffic::parameters)], 0U);
  }
}

// An update takes its time on the host, here 1 operation per ns and 3 n of them. The worker's step
// and the way to the server and back are those of the golden timelines: 9 ms and 10 ms. With the
// worker's profile for the host the golden timelines stay as they were (timeline_settings).
TEST(Asgd, UpdatesTakeTheirTimeOnTheHost) {
  const Record run =
      run_with(tiny("asgd"),
               "--batch-size 24 --max-samples 240 --profile @latency_only_profile "
               "--server-profile @compute_only_profile --network @latency_only_network");
  const double update_s = 3e-9 * static_cast<double>(run.parameters);
  EXPECT_NEAR(run.elapsed.count(), 10 * (0.009 + 0.010 + update_s), 1e-9);
}

// All messages of asgd's workers go through the link of the server's host, in both directions. So
// the link is busy for these bytes over its rate, at most all the time.
TEST(Asgd, TheServersLinkIsTakenForItsBytes) {
  const Record run =
      run_training(tiny("asgd", "--workers 8 --network ethernet-1g --max-samples 6400"));
  const double rate = run.network["server_bytes_per_s"];
  std::uint64_t sent = 0, received = 0;
  for (const WorkerRecord& worker : run.workers) {
    for (const std::uint64_t bytes : worker.report.breakdown.bytes_sent) sent += bytes;
    for (const std::uint64_t bytes : worker.report.breakdown.bytes_received) received += bytes;
  }
  const double busy = static_cast<double>(std::max(sent, received)) / rate;
  EXPECT_NEAR(run.server_link_busy.count(), busy, 1e-9 * busy);
  EXPECT_LE(run.server_link_busy, run.elapsed);
  EXPECT_EQ(run_training(tiny("ssgd", "--workers 2 --max-samples 640")).server_link_busy,
            Seconds(0));
}

}  // namespace
}  // namespace hetsgd::test
