// dc-asgd: identities, golden timeline, both clusters.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kDcAsgd = tiny_steps("dc-asgd");

// g + 0 * g o g o (w - w_bak) = g, then the same update. (The server's time must not differ, or the
// order of pushes does: operations and bytes cost nothing here.)
TEST(DcAsgd, LambdaZeroIsAsgdToTheBit) {
  const Settings base =
      with(kDcAsgd, "--workers 4 --speed 1,0.9,0.7,0.5 --profile @latency_only_profile");
  const Record asgd = run_with(base, "--algorithm asgd");
  EXPECT_GE(asgd.histograms.at("staleness").rbegin()->first, 3);
  for (const char* backup : {"worker", "server"}) {
    expect_same_bits(asgd, run_with(base, "--lambda 0 --dc-backup {}", backup));
    expect_same_bits(asgd, run_with(base, "--dc adaptive --lambda 0 --dc-backup {}", backup));
  }
}

TEST(DcAsgd, RefusesOtherOptimizers) {
  expect_refused(with(kDcAsgd, {{"optimizer", "momentum"}}),
                 "--optimizer: dc-asgd has an update rule of its own");
}

}  // namespace
}  // namespace hetsgd::test
