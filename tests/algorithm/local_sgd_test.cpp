// local-sgd: identities, records, timeline, and learning everywhere. Its losses with outer momentum
// are checked against tests/reference/numpy_local_sgd.py.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kLocalSgd = tiny_steps("local-sgd", "--batch-size 16 --max-samples 2560");

TEST(LocalSgd, RoundsAreFixedAndTheLastOneEndsWithTheBudget) {
  const Record run = run_with(kLocalSgd, "--workers 2 --local-steps 7 --max-samples 640");
  // 640 samples are 20 steps of two workers with 16 each: 7 + 7 + 6.
  EXPECT_EQ(run.histograms.at("local_steps"),
            (std::map<std::int64_t, std::uint64_t>{{6, 2}, {7, 4}}));
  EXPECT_EQ(run.curve.back().samples_count, 640U);
}

}  // namespace
}  // namespace hetsgd::test
