#include <gtest/gtest.h>

#include <thread>

#include "linalg/softmax_problem.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

TEST(Device, NamesItselfAndRefusesImpossibleCores) {
  EXPECT_EQ(make_cpu_device<float>(2)->name(), "cpu:2");
  for (const int cores : {0, -1, 1025}) {
    const Failure failure = failure_of([&] { make_cpu_device<float>(cores); });
    EXPECT_EQ(failure.code, ExitCode::device);
    EXPECT_NE(failure.message.find(std::to_string(cores)), std::string::npos);
  }
}

TEST(Buffer, GrowsByResetAndNeverShrinks) {
  const auto device = make_cpu_device<float>(1);
  Buffer buffer(*device, 100);
  const float* first = buffer.data();
  buffer.reset(*device, 10);
  EXPECT_EQ(buffer.data(), first);
  EXPECT_EQ(buffer.size(), 10U);
  buffer.reset(*device, 100);
  EXPECT_EQ(buffer.data(), first);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), first);
  moved.reset(*device, 101);
  EXPECT_EQ(moved.span().size(), 101U);
}

struct UnheardOfKernels : KernelFamily {
  static constexpr const char* kName = "unheard-of kernels";
};

TEST(Device, FamiliesAreMadeOnceAndMissingOnesAreNamed) {
  const auto device = make_cpu_device<float>(2);
  EXPECT_EQ(&kernels<SparseKernels>(*device), &kernels<SparseKernels>(*device));
  EXPECT_NE(&kernels<SparseKernels>(*device), &kernels<SparseKernels>(*make_cpu_device<float>(2)));
  const Failure failure = failure_of([&] { kernels<UnheardOfKernels>(*device); });
  EXPECT_EQ(failure.code, ExitCode::device);
  EXPECT_EQ(failure.message, "cpu:2: this device has no unheard-of kernels");
  EXPECT_FALSE(failure.hint.empty());
}

// Many devices at once, from many threads, as the workers of a simulated cluster use them.
TEST(Device, ConcurrentDevicesDoNotDisturbEachOther) {
  for (const int cores : kCoreCounts) {
    const auto expected = results_of_task(*make_cpu_device<float>(cores), 0);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        const auto device = make_cpu_device<float>(cores);
        for (int repeat = 0; repeat < 20; ++repeat) {
          wrong[t] += !same_bits(results_of_task(*device, 0), expected);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
  }
}

}  // namespace
}  // namespace hetsgd::test
