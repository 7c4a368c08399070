// dc-asgd: identities, golden timeline, both clusters.

#include "core/error.hpp"
#include "support/compare.hpp"
#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

const Settings kDcAsgd = tiny_steps("dc-asgd");

// g + 0 * g o g o (w - w_bak) = g, then the same update. (The server's time must not differ, or the
// order of pushes does: operations and bytes cost nothing here.)
TEST(DcAsgd, LambdaZeroIsAsgdToTheBit) {
  const Settings base = with(kDcAsgd, {{"workers", "4"},
                                       {"speed", "1,0.9,0.7,0.5"},
                                       {"profile", HETSGD_TEST_DATA "/latency_only_profile.json"}});
  const Record asgd = run_training(with(base, {{"algorithm", "asgd"}}));
  EXPECT_GE(asgd.histograms.at("staleness").rbegin()->first, 3);
  for (const char* backup : {"worker", "server"}) {
    expect_same_bits(asgd, run_training(with(base, {{"lambda", "0"}, {"dc_backup", backup}})));
    expect_same_bits(
        asgd,
        run_training(with(base, {{"dc", "adaptive"}, {"lambda", "0"}, {"dc_backup", backup}})));
  }
}

// One worker: w has not moved since its pull, w - w_bak = 0, whatever lambda.
TEST(DcAsgd, OneWorkerIsAsgdToTheBit) {
  const Record asgd = run_training(with(kDcAsgd, {{"algorithm", "asgd"}}));
  expect_same_bits(asgd, run_training(with(kDcAsgd, {{"lambda", "7"}})));
  expect_same_bits(asgd, run_training(with(kDcAsgd, {{"dc", "adaptive"}, {"lambda", "7"}})));
}

// The one backup of the server is the model before the last update, so even one worker's gradient
// is "compensated" for its own last step.
TEST(DcAsgd, TheServersBackupDiffersEvenWithOneWorker) {
  const auto asgd = step_losses(run_training(with(kDcAsgd, {{"algorithm", "asgd"}})));
  const auto dc =
      step_losses(run_training(with(kDcAsgd, {{"dc_backup", "server"}, {"lambda", "7"}})));
  EXPECT_EQ(asgd[0], dc[0]);
  EXPECT_EQ(asgd[1], dc[1]);  // before the first update there is none to compensate for
  EXPECT_NE(asgd[2], dc[2]);
}

TEST(DcAsgd, RefusesOtherOptimizers) {
  try {
    run_training(with(kDcAsgd, {{"optimizer", "momentum"}}));
    FAIL() << "momentum was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--optimizer: dc-asgd has an update rule of its own"),
              std::string::npos)
        << error.what();
  }
}

TEST(DcAsgd, Timeline) {
  expect_golden(
      "dc_asgd",
      timeline(run_training(with(timeline_settings("dc-asgd"), {{"max_samples", "240"}}))));
}

TEST(DcAsgd, LearnsOnBothClusters) {
  const Settings base = with(kDcAsgd, {{"batch_size", "16"},
                                       {"learning_rate", "0.3"},
                                       {"max_samples", "16000"},
                                       {"evaluate_every", "4000"},
                                       {"record_steps", "false"}});
  expect_learns_everywhere(base);
  expect_learns_everywhere(with(base, {{"dc", "adaptive"}, {"dc_backup", "server"}}));
}

}  // namespace
}  // namespace hetsgd::test
