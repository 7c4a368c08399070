// Networks of images on a GPU against a core: the same mathematics, other rounding. Under several
// plans of memory the bits are the same. By cuDNN.

#include "support/compare.hpp"
#include "support/cudnn.hpp"
#include "support/gpu.hpp"

namespace hetsgd::test {
namespace {

Record train_images(const std::string& devices, const Settings& more) {
  return run_with(
      fmt::format(
          "--model lenet-5 --train generate:images?size=28&channels=1&rows_train=64&rows_test=32 "
          "--test generate:images?size=28&channels=1&rows_train=64&rows_test=32 --cache false "
          "--algorithm sgd --cluster threads --devices {} --batch-size 8 --mega-batch 8 "
          "--learning-rate 0.05 --max-samples 32 --evaluate-every 16 --record-steps",
          devices),
      more);
}

// Fused steps; a flat gradient with momentum; dropout; bn, whose statistics the GPU makes.
TEST(CudaGraphModels, FollowTheCpu) {
  for (const Settings& more :
       {Settings{}, Settings("--optimizer momentum --learning-rate 0.02"),
        Settings("--model lenet-001"),
        Settings(
            "--model resnet-20?size=16 --train generate:images?size=16&rows_train=64&rows_test=32 "
            "--test generate:images?size=16&rows_train=64&rows_test=32 --learning-rate 0.001 "
            "--max-samples 16 --evaluate-every 16 --bn-samples 16")}) {
    SCOPED_TRACE(more.empty() ? "plain" : more.front().second);
    const Record gpu = train_images("cuda:0", more);
    expect_alike(train_images("cpu:1", more), gpu);
    EXPECT_EQ(gpu.workers[0].report.device.rfind("cuda:0 (", 0), 0U);
    EXPECT_EQ(gpu.evaluation_device, cuda_device_name(0));
  }
}

TEST(CudaGraphModels, PlansOfMemoryChangeNoBit) {
  const auto losses = [](const Settings& more) {
    return step_losses(train_images("cuda:0", more));
  };
  const std::vector<double> unplanned = losses("--memory-policy none");
  for (const char* policy : {"liveness", "dymem", "vdnn-all"}) {
    EXPECT_EQ(losses({{"memory_policy", policy}}), unplanned) << policy;
  }
}

// Training by cuDNN, measured by our own convolutions; all its handles are freed afterwards.
TEST(CudaGraphModels, CudnnFollowsTheCpu) {
  EXPECT_EQ(train_images("cuda:0", {}).convolution_library.rfind("own, cuBLAS ", 0), 0U);
  if (open_cudnn() == nullptr) GTEST_SKIP() << "there is no cuDNN here";
  for (const Settings& more :
       {Settings{}, Settings("--optimizer momentum --learning-rate 0.02"),
        Settings("--memory-policy dymem"), Settings("--algorithm ssgd --workers 2")}) {
    SCOPED_TRACE(more.empty() ? "plain" : more.front().second);
    const int made = cudnn_made(), alive = cudnn_alive();
    const Record gpu = train_images("cuda:0", with("--convolution-library cudnn", more));
    expect_alike(train_images("cpu:1", more), gpu);
    EXPECT_EQ(gpu.convolution_library.rfind("cuDNN ", 0), 0U) << gpu.convolution_library;
    EXPECT_EQ(cudnn_alive(), alive);
    EXPECT_TRUE(made < 0 || cudnn_made() > made);
  }
}

TEST(CudaGraphModels, SynchronousWorkersAgreeWhereverTheyRun) {
  const Settings two = "--algorithm ssgd --workers 2";
  const Record cpu = train_images("cpu:1", two);
  expect_alike(cpu, train_images("cuda:0", two));
  expect_alike(cpu, train_images("cuda:0,cpu:1", two));
}

}  // namespace
}  // namespace hetsgd::test
