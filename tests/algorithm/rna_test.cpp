// RNA: identity, probes, local accumulation, records, timelines, and learning everywhere.
// Its losses are checked against tests/reference/numpy_decentralised.py.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kRna = tiny_steps("rna");

// The same of equal steps, whatever the nonzeros of a batch.
const Settings kEqualRna = with(kRna, "--profile @latency_only_profile");

// More probes find a faster initiator: rounds take less time (figure 5.7), and contributors get
// fewer.
TEST(Rna, MoreProbesAnswerSooner) {
  std::vector<double> rounds_per_s, contributors;
  for (const std::string q : {"1", "2", "8"}) {
    const Record run =
        run_with(kRna,
                 "--workers 8 --probes {} --straggler kind=uniform,min=10ms,max=50ms "
                 "--max-samples 25600 --record-steps false",
                 q);
    rounds_per_s.push_back(static_cast<double>(observations(run, "contributors")) /
                           run.elapsed.count());
    double sum = 0;
    for (const auto& [value, n] : run.histograms.at("contributors")) {
      sum += static_cast<double>(value) * static_cast<double>(n);
    }
    contributors.push_back(sum / static_cast<double>(observations(run, "contributors")));
  }
  EXPECT_GT(rounds_per_s[1], 1.1 * rounds_per_s[0]);
  EXPECT_GT(rounds_per_s[2], rounds_per_s[1]);
  EXPECT_GT(contributors[0], contributors[1]);
  EXPECT_GT(contributors[1], contributors[2]);
}

// Probes are messages. Per round one more probe costs two messages to the controller (the answer to
// the probe, and the next wait) and two back (the probe, the receipt).
TEST(Rna, ProbesCostMessages) {
  const auto control_bytes = [](const std::string& q) {
    const Record run = run_with(kRna, "--workers 4 --probes {}", q);
    double bytes = 0;
    for (const WorkerRecord& worker : run.workers) {
      bytes += static_cast<double>(
          worker.report.breakdown.bytes_sent[static_cast<std::size_t>(Traffic::control)]);
    }
    return bytes / static_cast<double>(observations(run, "contributors"));
  };
  const double one = control_bytes("1"), two = control_bytes("2"), three = control_bytes("3");
  EXPECT_GT(two, one);
  EXPECT_NEAR(three - two, two - one, 1.0);
}

// The straggler's gradients are late by the rounds that passed meanwhile, and never delayed others.
TEST(Rna, StragglersContributeLate) {
  const Settings slow = with(
      kEqualRna, "--workers 4 --straggler kind=constant,worker=2,factor=9 --max-samples 12800");
  const Record count = run_training(slow);
  EXPECT_GE(count.histograms.at("staleness").rbegin()->first, 5);
  EXPECT_FALSE(count.histograms.contains("dropped"));
  const Record age = run_with(slow, "--bound age --eta 2");
  EXPECT_LE(age.histograms.at("staleness").rbegin()->first, 2);
  EXPECT_GE(age.histograms.at("dropped").begin()->first, 3);
  // Each of its gradients is reduced or dropped; some may be in flight at the end.
  EXPECT_LE(observations(age, "staleness") + observations(age, "dropped"), 12800U / 32 + 8);
  EXPECT_GE(observations(age, "staleness") + observations(age, "dropped"), 12800U / 32 - 8);
}

// A fast worker that does not wait continues at the model that it has (figure 5.1, w_1 at t + 2).
// Its contribution then holds several gradients, at most eta; older ones are dropped and counted.
TEST(Rna, AheadAccumulatesUpToEta) {
  const Settings base = with(kEqualRna,
                             "--workers 2 --probes 1 --straggler kind=constant,worker=1,factor=9 "
                             "--max-samples 6400 --network ideal");
  const auto most = [](const Record& run) {
    std::size_t n = 0;
    for (const auto& e : events_of(run, "contribution")) n = std::max(n, e["iterations"].size());
    return n;
  };
  EXPECT_LE(most(run_training(base)), 2U);  // one late, one at the newest model
  const Record ahead = run_with(base, "--ahead 0");
  EXPECT_EQ(most(ahead), 4U);
  EXPECT_GT(observations(ahead, "dropped"), 0U);
  EXPECT_EQ(most(run_with(base, "--ahead 0 --eta 2")), 2U);
  EXPECT_EQ(most(run_with(base, "--ahead 3 --eta 100")), 4U);  // one late
}

}  // namespace
}  // namespace hetsgd::test
