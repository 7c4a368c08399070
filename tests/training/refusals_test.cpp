// Refusals of a run before it begins, and their messages.

#include "support/failure.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

const Settings kTwoWorkers = tiny("ssgd", {{"workers", "2"}});
const Settings kOneEpoch = with(kTwoWorkers, {{"epochs", "1"}});
const Settings kOnThreads = with(kOneEpoch, {{"cluster", "threads"}});

Settings of_data(const std::string& data, const Settings& more = {}) {
  return with(
      {{"train", data}, {"test", data}, {"cache", "false"}, {"algorithm", "sgd"}, {"epochs", "1"}},
      more);
}
const std::string kFewClips = "generate:video?clips=24&clips_test=6&classes=3&size=4";
const std::string kFewDigits = "generate:images?size=12&channels=1&rows_train=40&rows_test=10";
const std::string kDigitsNetwork = HETSGD_TEST_DATA "/digits_network.json";

struct Refusal {
  Settings settings;
  std::string message;  // part of it
};

const Refusal kRefusals[] = {
    {kTwoWorkers, "--epochs: found no budget, expected --epochs, --max-samples or --max-time"},
    {with(kOneEpoch, {{"validation", "0.1"}}),
     "--validation: found 0.1 beside --test generate:tiny, expected one of the two"},
    {with(kOneEpoch, {{"max_samples", "5"}}),
     "--max-samples: found 5 beside --epochs 1, expected one of the two"},
    {with(kOneEpoch, {{"algorithm", "sgd"}}),
     "--workers: found 2 with --algorithm sgd, expected at most 1"},
    {with(kOneEpoch, {{"per_worker_batch", "split"}, {"batch_size", "1"}}),
     "--batch-size: found 1, expected at least one sample for each of the 2 workers"},
    {with(kOneEpoch, {{"speed", "1,1,1"}}), "--speed: found 3 speeds for 2 workers"},
    {with(kOneEpoch, {{"host_cores", "2"}, {"replay", "run.jsonl"}}),
     "--host-cores: found 2 beside --replay, expected none"},
    {with(kOnThreads, {{"charge", "amazon670k"}}),
     "--charge: found amazon670k with --cluster threads, expected --cluster sim, whose clock it "
     "charges"},
    {with(kOneEpoch, {{"step_time", "1ms"}, {"charge", "amazon670k"}}),
     "--step-time: found 1 ms beside --charge, --replay or real time, expected --cluster sim"},
    // A CPU has no TF32.
    {with(kOneEpoch, {{"precision", "tf32"}}),
     "--precision: found tf32 with --cluster sim, expected fp32 or bf16 where a worker computes on "
     "a CPU"},
    {with(kOnThreads, {{"precision", "tf32"}}), "--precision: found tf32 with no --devices"},
    {with(kOnThreads, {{"precision", "tf32"}, {"devices", "cuda:0,cpu:1"}}),
     "--precision: found tf32 with --devices cpu:1"},
    // cuDNN is for networks on GPUs.
    {with(kOneEpoch, {{"convolution_library", "cudnn"}, {"model", "lenet-5"}}),
     "--convolution-library: found cudnn with --cluster sim, expected own there"},
    {with(kOnThreads, {{"convolution_library", "cudnn"}, {"model", "lenet-5"}}),
     "found cudnn with no GPU in --devices, expected own there"},
    {with(kOnThreads, {{"convolution_library", "cudnn"}, {"devices", "cpu:1,cuda:0"}}),
     "found cudnn with --model mlp, which has no convolutions, expected own there"},
    {with(kOnThreads, {{"convolution_library", "cudnn"},
                       {"devices", "cuda:0"},
                       {"model", "lenet-5"},
                       {"precision", "bf16"}}),
     "found cudnn with --precision bf16, which cuDNN lacks for float32, expected own there"},
    // Data that the model does not read.
    {of_data(kFewClips),
     "mlp reads sparse features, but the training data have sequences of frames of 4 "
     "numbers"},
    {of_data(kFewClips, {{"model", "lstm-video?size=5&classes=3"}}),
     "reads frames of 5 elements, but those of the training data have 4"},
    {of_data(kFewClips, {{"model", "lstm-video?size=4&classes=3"}, {"augment", "flip"}}),
     "expected images"},
    {of_data(kFewDigits, {{"model", "lstm-video?size=4&classes=3"}}), "reads images of 4x186x1"},
    {of_data(kFewDigits, {{"model", kDigitsNetwork}, {"order", "bucketed"}}),
     "--order: found bucketed with images of 1x12x12 as training data"},
    {of_data(kFewDigits, {{"model", kDigitsNetwork}, {"lengths", "packed"}}),
     "--lengths: found packed for images, expected training data of sequences"},
    {of_data("generate:images?size=8&rows_train=20&rows_test=10"),
     "--model: mlp reads sparse features, but the training data have images of 3x8x8"},
    {with(kOneEpoch, {{"augment", "flip"}}),
     "--augment: found sparse features alone as training data, expected images"},
    {with(kOneEpoch, {{"image", "28x28"}}), "--image"},
};

TEST(Refusals, NameTheOptionAndWhatIsWrong) {
  for (const Refusal& each : kRefusals) {
    EXPECT_THAT(usage_error_of([&] { run_training(each.settings); }), HasSubstr(each.message));
  }
}

TEST(Refusals, WhatIsRefusedOnCpusHasADefaultThere) {
  const Record run = run_with(kTwoWorkers, {{"max_samples", "64"}});
  EXPECT_EQ(run.config["precision"], "fp32");
  EXPECT_EQ(run.config["convolution_library"], "own");
  EXPECT_EQ(run.convolution_library, "");
}

}  // namespace
}  // namespace hetsgd::test
