// The main() of all programs of tests that need a GPU.
#include "support/gpu.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const hetsgd::CudaPlatform platform = hetsgd::cuda_platform(); platform.gpus.empty()) {
    fmt::print("skipped: {}\n", platform.problem);
    return hetsgd::test::kSkipped;
  }
  return RUN_ALL_TESTS();
}
