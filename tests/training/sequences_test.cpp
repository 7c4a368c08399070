// Sequences of unequal lengths in runs: the charges of the simulated clock. models_test.cpp has all
// algorithms.

#include "data/generate_video.hpp"
#include "data/sampler.hpp"
#include "support/run.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

const std::string kClips =
    "generate:video?clips=240&clips_test=60&classes=3&size=4&median=8&shortest=2&longest=40&noise="
    "0.3";
const std::string kVideoNetwork = "lstm-video?size=4&units=8&dense=6&classes=3&dropout=0.1";

Settings of_clips(const std::string& algorithm, const std::string& cluster,
                  const Settings& more = {}) {
  return with(
      fmt::format("--model {0} --train {1} --test {1} --cache false --algorithm {2} --cluster {3} "
                  "--batch-size 8 --mega-batch 8 --learning-rate 0.3 --max-samples 1200",
                  kVideoNetwork, kClips, algorithm, cluster),
      more);
}

TEST(SequenceRuns, OneWorkerLearnsTheSameOnBothClusters) {
  const auto loss = [](const std::string& cluster) {
    return run_training(of_clips("sgd", cluster)).curve.back().test_loss();
  };
  EXPECT_EQ(loss("sim"), loss("threads"));
}

// On a device that counts launches alone a batch of T steps takes a + 6 T launches: the run's time
// tells the sum of T, which the order of samples gives.
TEST(SequenceRuns, TheClockChargesTheLongestRowOfEachBatchOrTheMean) {
  const TemporaryFile profile(
      "launches", R"({"name": "p", "launch_overhead_s": 1e-3, "operations_per_s": 1e18,)"
                  R"( "bytes_per_s": 1e18, "memory_bytes": 1e9, "host_link_bytes_per_s": 1e18,)"
                  R"( "host_link_latency_s": 0})");
  const auto data = std::make_shared<const Dataset>(
      generate_video(parse_video_spec(kClips), DataPart::train, 1).data);
  for (const Order order : {Order::shuffled, Order::bucketed}) {
    const Sampler sampler(data, {.order = order, .batch = 8});
    double longest = 0, mean = 0;
    for (std::uint64_t i = 0; i < 150; ++i) {
      Batch batch;
      sampler.fill(0, {8 * i, 8}, batch);
      longest += batch.shape().steps;
      mean += batch.shape().frames / 8;
    }
    const auto time = [&](const std::string& lengths) {
      return compute_s(run_training(
          of_clips("sgd", "sim",
                   fmt::format("--profile {} --order {} --lengths {}", profile.path(),
                               order == Order::shuffled ? "shuffled" : "bucketed", lengths))));
    };
    EXPECT_NEAR(time("padded") - time("packed"), 6e-3 * (longest - mean), 1e-6);
  }
}

// 4.5 ms for each step of a batch, of clips whose mean length stands for 186 frames; the result
// counts the batches by their steps.
TEST(SequenceRuns, AreChargedForLstmVideoByTheirOwnSteps) {
  const auto data = generate_video(parse_video_spec(kClips), DataPart::train, 1).data;
  const double per_real = 186.0 * 240 / static_cast<double>(data.totals().frames);
  const auto run = [](const std::string& order, const std::string& lengths) {
    return run_training(
        of_clips("sgd", "sim",
                 fmt::format("--charge lstm-video --max-samples 240 --order {} --lengths {}", order,
                             lengths)));
  };
  for (const std::string order : {"shuffled", "bucketed"}) {
    const Record record = run(order, "padded");
    double steps = 0;
    std::uint64_t batches = 0;
    for (const auto& [length, count] : record.histograms.at("steps")) {
      steps += static_cast<double>(length) * static_cast<double>(count);
      batches += count;
    }
    EXPECT_EQ(batches, 30U);
    const double charged_s = 4.5e-3 * per_real * steps;
    EXPECT_NEAR(compute_s(record), charged_s, 1e-6 * charged_s) << order;
    EXPECT_EQ(record.charge["steps_per_real"], per_real);
    EXPECT_EQ(record.charge["parameters"], 34'663'525);
    // An epoch of whole batches, each at the mean of its rows.
    const double packed_s = compute_s(run(order, "packed"));
    EXPECT_NEAR(packed_s, 4.5e-3 * 186 * 30, 1e-6 * packed_s) << order;
  }
}

}  // namespace
}  // namespace hetsgd::test
