// Training on a GPU against training on a core: the same mathematics, other rounding.

#include "support/compare.hpp"
#include "support/gpu.hpp"

namespace hetsgd::test {
namespace {

const Settings kBase = tiny("sgd", "--cluster threads --record-steps --evaluate-every 320");

// 20 steps of one worker: fused steps, two hidden layers, optimizers, a linear model.
TEST(CudaTraining, FollowsTheCpu) {
  for (const Settings& more :
       {Settings{}, Settings("--hidden 18,7"), Settings("--model linear"), Settings("--model fm"),
        Settings("--optimizer momentum --learning-rate 0.05"),
        Settings("--optimizer adam --learning-rate 0.001"),
        Settings("--optimizer lamb --learning-rate 0.001")}) {
    SCOPED_TRACE(more.empty() ? "plain" : more.front().second);
    const Settings settings = with(with(kBase, "--max-samples 640"), more);
    const Record cpu = run_with(settings, "--devices cpu:1");
    const Record gpu = run_with(settings, "--devices cuda:0");
    EXPECT_EQ(step_losses(gpu).size(), 20U);
    expect_alike(cpu, gpu);
    EXPECT_EQ(gpu.workers[0].report.device.rfind("cuda:0 (", 0), 0U);
  }
}

// The next tokens of a text, and masked ones, by way of every node of tokens.
TEST(CudaTraining, NetworksOfTokensFollowTheCpu) {
  const std::string text = "generate:language?vocabulary=8&steps=12&rows_train=80&rows_test=24";
  for (const char* model : {"gpt-micro?width=16&block=16", "bert-micro?width=16&block=16"}) {
    SCOPED_TRACE(model);
    const Settings settings = with(
        {{"train", text}, {"test", text}, {"model", model}},
        "--cache false --algorithm ssgd --workers 2 --batch-size 8 --learning-rate 0.5 --cluster "
        "threads --record-steps --max-samples 80 --evaluate-every 40");
    const Record cpu = run_with(settings, "--devices cpu:1");
    const Record gpu = run_with(settings, "--devices cuda:0");
    expect_alike(cpu, gpu);
    expect_same_bits(gpu, run_with(settings, "--devices cuda:0"));
  }
}

// Three workers on one GPU, and a mixture: the cluster stages their messages.
TEST(CudaTraining, SynchronousWorkersAgreeWhereverTheyRun) {
  for (const char* algorithm : {"ssgd", "elastic", "sma", "easgd", "local-sgd"}) {
    SCOPED_TRACE(algorithm);
    const Settings settings = with(
        kBase, "--algorithm {} --workers 3 --max-samples 960 --evaluate-every 480 --mega-batch 6",
        algorithm);
    const Record cpu = run_with(settings, "--devices cpu:1");
    expect_alike(cpu, run_with(settings, "--devices cuda:0"));
    expect_alike(cpu, run_with(settings, "--devices cuda:0,cpu:1,cuda:0"));
  }
}

// Several on one GPU, each on a stream of its own with its own optimizer, and another number of
// streams with each decision of the tuner.
TEST(CudaTraining, LearnersOfOneGpuLearnAsOnACore) {
  for (const Settings& more :
       {Settings("--learners-per-device 2"),
        Settings("--learners-per-device 3 --sma hierarchical --workers 2"),
        Settings("--learners-per-device 2 --optimizer momentum --model fm")}) {
    const Settings settings =
        with(with(kBase, "--algorithm sma --learning-rate 0.05 --max-samples 960"), more);
    expect_alike(run_with(settings, "--devices cpu:1"), run_with(settings, "--devices cuda:0"));
  }
  const Record tuned =
      run_with(kBase,
               "--algorithm sma --devices cuda:0 --learners-per-device auto --tuner "
               "literal --tuner-every 2 --max-samples 1600");
  EXPECT_LT(tuned.curve.back().test_loss(), tuned.curve.front().test_loss());
}

// Asynchronous runs have a random order, but they end, learn, and are measured: a server,
// background tasks, replicas.
TEST(CudaTraining, AsynchronousWorkersLearn) {
  for (const char* algorithm : {"adaptive", "asgd", "dc-asgd", "ssp", "esync", "adpsgd",
                                "eager-solo", "eager-majority", "rna", "hogbatch"}) {
    SCOPED_TRACE(algorithm);
    const Record run = run_with(kBase,
                                "--algorithm {} --workers 2 --max-samples 1600 --evaluate-every "
                                "1600 --learning-rate 0.2 --devices cuda:0",
                                algorithm);
    EXPECT_LT(run.curve.back().test_loss(), run.curve.front().test_loss());
  }
}

// A GPU beside two cores, under every algorithm that takes one: services, collectives, exchanges
// and shared memory between host and device.
TEST(CudaTraining, EveryAlgorithmLearnsOnAMixedMachine) {
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (algorithm.info.max_workers < 3 || !algorithm.info.cpu_only.empty()) continue;
    if (!algorithm.info.sharded_tables_only.empty()) continue;  // cuda_tables_test.cpp
    for (const char* devices : {"cuda:0,cpu:1*2", "cpu:1,cuda:0,cpu:1"}) {
      SCOPED_TRACE(algorithm.info.name + " on " + devices);
      const Record run = run_with(kBase,
                                  "--algorithm {} --devices {} --max-samples 1920 --evaluate-every "
                                  "1920 --mega-batch 12 --learning-rate 0.2",
                                  algorithm.info.name, devices);
      EXPECT_EQ(run.workers.size(), 3U);
      EXPECT_TRUE(std::isfinite(run.curve.back().test_loss()));
      EXPECT_LT(run.curve.back().test_loss(), run.curve.front().test_loss());
    }
  }
}

// A GPU alone pulls w, steps and adds its move, with the result of sgd's step.
TEST(CudaTraining, OneGpuOfHogbatchFollowsSgd) {
  for (const char* how : {"add", "overwrite"}) {
    const Settings base = with(kBase, "--devices cuda:0 --max-samples 640");
    expect_alike(run_training(base), run_with(base, "--algorithm hogbatch --gpu-update {}", how));
  }
}

// Rounded operands show in the losses, by no more than their rounding.
TEST(CudaTraining, PrecisionReachesTheProducts) {
  const auto losses = [](const char* precision) {
    return step_losses(
        run_with(kBase, "--devices cuda:0 --max-samples 320 --precision {}", precision));
  };
  const std::vector<double> exact = losses("fp32"), rounded = losses("bf16");
  ASSERT_EQ(rounded.size(), exact.size());
  EXPECT_NE(rounded, exact);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 1e-2 * exact[i]);
}

TEST(CudaTraining, AllGpusAreADeviceList) {
  const Record run = run_with(kBase, "--algorithm ssgd --devices cuda:all --max-samples 320");
  EXPECT_EQ(run.workers.size(), cuda_platform().gpus.size());
}

}  // namespace
}  // namespace hetsgd::test
