// The training loss of a point of the curve: the mean over the losses of all batches since the
// point before, one for each sample or for each target of rows of tokens.

#include "support/run.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

// The same from the events of the steps, for the last point of a curve of two. losses_of: the
// number of losses of a step.
void expect_mean_over_losses(const Record& run,
                             const std::function<double(const nlohmann::json&)>& losses_of) {
  ASSERT_EQ(run.curve.size(), 2U);
  double sum = 0, count = 0, means = 0, steps = 0;
  for (const nlohmann::json& event : run.events) {
    const bool counts =
        event["type"] == "step" && Seconds(event["time_s"].get<double>()) <= run.curve.back().time;
    if (!counts) continue;
    const double n = losses_of(event), loss = event["loss"];
    sum += n * loss;
    count += n;
    means += loss;
    ++steps;
  }
  EXPECT_NEAR(run.curve.back().train_loss, sum / count, 1e-9);
  EXPECT_GT(std::abs(means / steps - sum / count), 1e-4);  // the batches differ enough
}

double samples_of(const nlohmann::json& event) { return event["samples"]; }

// Steps of 1, 2 and 2 samples, which are all rows: their mean is that of a measurement before them.
TEST(TrainLoss, OfOneStepIsThatOfAMeasurementBefore) {
  const TemporaryFolder folder;
  const std::string file = folder.write("rows.svm", "1 1:1\n2 2:1\n3 3:1\n1 1:2\n2 2:2\n");
  const Record run = run_training(
      fmt::format("--cache false --model linear --order sequential --batch-size 5 "
                  "--per-worker-batch split --algorithm ssgd --workers 3 --max-samples 5 "
                  "--record-steps --train {0} --test {0}",
                  file));
  EXPECT_NEAR(run.curve.back().train_loss, run.curve.front().test_loss(), 1e-6);
  expect_mean_over_losses(run, samples_of);
}

TEST(TrainLoss, IsAMeanOverTheSamplesOfEveryMethodWithUnequalBatches) {
  const Settings base = tiny("sgd", "--record-steps --max-samples 3200 --evaluate-every 3200");
  for (const char* const how :
       {"ssgd --workers 3 --per-worker-batch split",
        "ssgd --workers 3 --per-worker-batch split --cluster threads",
        "adaptive --workers 2 --speed 1,0.3 --mega-batch 10",
        "hogbatch --workers 2 --profile @compute_only_profile*1,@compute_only_gpu_profile*1"}) {
    SCOPED_TRACE(how);
    expect_mean_over_losses(run_with(base, "--algorithm {}", how), samples_of);
  }
}

// Four workers with a line each: the long ones have 31 targets, with that of the line's end, the
// short ones 3.
TEST(TrainLoss, IsAMeanOverTargets) {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "lines.txt", "abcabcabcabcabcabcabcabcabcabc\nba\nabcabcabcabcabcabcabcabcabcabc\nca\n");
  for (const char* const how : {"padded", "packed", "padded --cluster threads"}) {
    SCOPED_TRACE(how);
    const Settings base = fmt::format(
        "--cache false --format text --rows lines --block 64 --train {0} --test {0} --model "
        "gpt-micro?layers=1&width=16 --order sequential --learning-rate 0.5 --batch-size 1 "
        "--algorithm ssgd --workers 4 --record-steps --lengths {1}",
        file, how);
    const Record step = run_with(base, "--max-samples 4");
    EXPECT_NEAR(step.curve.back().train_loss, step.curve.front().test_loss(), 1e-6);
    expect_mean_over_losses(
        run_with(base, "--max-samples 40 --evaluate-every 40"),
        [](const nlohmann::json& event) { return event["rank"].get<int>() % 2 == 0 ? 31.0 : 3.0; });
  }
}

}  // namespace
}  // namespace hetsgd::test
