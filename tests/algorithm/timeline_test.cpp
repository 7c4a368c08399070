// Golden timelines of the algorithms of paper 000 (support/timeline.hpp).

#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

TEST(Timeline, SsgdMirrored) {
  expect_golden(
      "ssgd_mirrored",
      timeline(run_training(with(timeline_settings("ssgd"),
                                 {{"per_worker_batch", "split"}, {"max_samples", "240"}}))));
}

TEST(Timeline, SsgdCentral) {
  expect_golden(
      "ssgd_central",
      timeline(run_training(
          with(timeline_settings("ssgd"),
               {{"per_worker_batch", "split"}, {"max_samples", "240"}, {"storage", "central"}}))));
}

// Two mega-batches of 5 steps per worker: 10 iterations.
TEST(Timeline, Elastic) {
  expect_golden("elastic",
                timeline(run_training(with(timeline_settings("elastic"),
                                           {{"mega_batch", "15"}, {"max_samples", "720"}}))));
}

// The straggler takes fewer and, after the first merge, smaller batches.
TEST(Timeline, Adaptive) {
  const Settings perturbs = {{"mega_batch", "15"}, {"max_samples", "720"}, {"pert_threshold", "1"}};
  expect_golden("adaptive", timeline(run_training(with(timeline_settings("adaptive"), perturbs))));
}

TEST(Timeline, Sgd) {
  const Settings one =
      with(timeline_settings("sgd", 0), {{"workers", "1"}, {"max_samples", "240"}});
  expect_golden("sgd", timeline(run_training(one)));
}

}  // namespace
}  // namespace hetsgd::test
