// slide: identities with sgd, the same bits on both clusters, recall, refusals.

#include <gmock/gmock.h>

#include "cluster/devices.hpp"
#include "support/compare.hpp"

namespace hetsgd::test {
namespace {

const Settings kSlide = tiny_steps("slide", {{"hash_codes", "2"},
                                             {"hash_tables", "8"},
                                             {"bin", "4"},
                                             {"active_min", "10"},
                                             {"rehash", "10"},
                                             {"rebuild", "40"}});

// All labels active: the softmax is whole, and so is its gradient.
TEST(Slide, AllLabelsActiveIsSgd) {
  const Settings base = with(kSlide, {{"active", "all"}});
  const Settings sgd = tiny_steps("sgd");
  expect_close(step_losses(run_training(sgd)), step_losses(run_training(base)), 1e-5);
  const Settings adam = {{"optimizer", "adam"}, {"learning_rate", "0.01"}};
  expect_close(step_losses(run_training(with(sgd, adam))),
               step_losses(run_training(with(with(base, adam), {{"lazy", "dense"}}))), 1e-4);
}

// The tables lead to nothing, but the fill is everybody.
TEST(Slide, ActiveMinOfAllLabelsIsSgd) {
  const Record run = run_training(with(kSlide, {{"active_min", "1000"}}));
  expect_close(step_losses(run_training(tiny_steps("sgd"))), step_losses(run), 1e-4);
}

// One core in sim and in threads: one order of everything. With several cores, the order of cores.
TEST(Slide, TheSameBitsEachTime) {
  const Settings adam = with(kSlide, {{"optimizer", "adam"}, {"learning_rate", "0.01"}});
  for (const char* hash : {"dwta", "simhash"}) {
    for (const char* sampling : {"union", "vanilla", "threshold"}) {
      const Settings base = with(adam, {{"hash", hash}, {"sampling", sampling}});
      const Record sim = run_training(base);
      expect_same_bits(sim, run_training(with(base, {{"cluster", "threads"}})));
      if (available_cores().size() < 2) continue;
      const Settings cores = with(base, {{"cluster", "threads"}, {"devices", "cpu:2"}});
      expect_same_bits(run_training(cores), run_training(cores));
    }
  }
}

// Rehashes after 0, 10, 20 ... batches, new functions from 40, 80; recall over each interval.
TEST(Slide, RehashesAndRebuildsBySchedule) {
  const Record run = run_training(kSlide);
  std::vector<bool> rebuilt;
  for (const auto& event : events_of(run, "rehash")) rebuilt.push_back(event["rebuilt"]);
  EXPECT_EQ(rebuilt,
            (std::vector<bool>{true, false, false, false, true, false, false, false, true, false}));
  EXPECT_EQ(events_of(run, "recall").size(), 10U);
  const Record slower = run_training(with(kSlide, {{"rehash_decay", "0.5"}}));
  EXPECT_EQ(events_of(slower, "rehash").size(), 5U);  // 0, 10, 10 + 16.5, 53.7 (10 e^1) ...
}

// What has been learnt brings labels and activations together: tables find true labels more often
// than as many labels by chance.
TEST(Slide, RecallIsAboveChanceOnceItHasLearnt) {
  const Record run = run_training(with(kSlide, {{"max_samples", "12800"},
                                                {"optimizer", "adam"},
                                                {"learning_rate", "0.01"},
                                                {"record_steps", "false"}}));
  const auto last = events_of(run, "recall").back();
  EXPECT_GT(last["recall"].get<double>(), 1.2 * last["random"].get<double>());
  EXPECT_GT(metric_of(run.curve.back(), "p1").value(), 0.3);
}

void expect_slide_refuses(const Settings& more, const std::string& message) {
  try {
    run_training(with(kSlide, more));
    FAIL() << "was not refused: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), testing::HasSubstr(message));
  }
}

TEST(Slide, RefusesWhatItCannotDo) {
  expect_slide_refuses({{"optimizer", "momentum"}}, "--optimizer: found momentum");
  expect_slide_refuses({{"optimizer", "adam"}, {"weight_decay", "0.1"}}, "--weight-decay 0.1");
  expect_slide_refuses({{"bin", "17"}}, "--bin: found 17, expected at most the 16 units");
  expect_slide_refuses({{"hidden", "16,16"}},
                       "--model: found one without exactly one hidden layer");
  expect_slide_refuses({{"model", "linear"}},
                       "--model: found one without exactly one hidden layer");
  expect_slide_refuses({{"hash_codes", "24"}}, "--hash-codes: found 24");
  expect_slide_refuses({{"active_max", "5"}}, "--active-max: found 5");
  expect_slide_refuses({{"workers", "2"}}, "--workers: found 2, but slide runs on at most 1");
}

}  // namespace
}  // namespace hetsgd::test
