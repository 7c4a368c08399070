#include <gtest/gtest.h>

#include <thread>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

TEST(Device, NamesItselfAndRefusesImpossibleCores) {
  EXPECT_EQ(make_cpu_device<float>(2)->name(), "cpu:2");
  for (const int cores : {0, -1, 1025}) {
    try {
      make_cpu_device<float>(cores);
      FAIL() << cores;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::device);
      EXPECT_NE(std::string(error.what()).find(std::to_string(cores)), std::string::npos);
    }
  }
}

TEST(Device, MemoryIsAlignedAndExhaustionIsAnError) {
  const auto device = make_cpu_device<float>(1);
  for (const std::size_t bytes : {0UL, 1UL, 100UL, 5UL << 20}) {
    void* memory = device->allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    device->release(memory);
  }
  for (const std::size_t bytes : {std::size_t{1} << 60, ~std::size_t{0}}) {
    try {
      device->allocate(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::device);
      EXPECT_FALSE(error.hint().empty());
    }
  }
}

TEST(Device, TransfersRoundTripForEveryNumberOfCores) {
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<float>(cores);
    const auto host = random_vector<float>(1'000'003, 1);
    Buffer buffer(*device, host.size());
    device->upload(buffer.data(), host.data(), host.size() * sizeof(float));
    std::vector<float> back(host.size());
    device->download(back.data(), buffer.data(), back.size() * sizeof(float));
    device->synchronize();
    EXPECT_EQ(back, host);
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
  try {
    kernels<UnheardOfKernels>(*device);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_STREQ(error.what(), "cpu:2: this device has no unheard-of kernels");
    EXPECT_FALSE(error.hint().empty());
  }
}

// Many devices at once, from many threads, as the workers of a simulated cluster use them.
TEST(Device, ConcurrentDevicesDoNotDisturbEachOther) {
  const std::size_t rows = 48, inputs = 64, outputs = 700;
  const RandomSparse labels(rows, outputs, 3, 1);
  const auto A = random_vector<float>(rows * inputs, 2),
             W = random_vector<float>(outputs * inputs, 3), b = random_vector<float>(outputs, 4);
  const auto compute = [&](Device& device) {
    std::vector<float> G(outputs * inputs), g(outputs), dA(rows * inputs), C(rows * outputs);
    SoftmaxLayer<float> layer{.inputs = inputs,
                              .outputs = outputs,
                              .input = A.data(),
                              .weight = W.data(),
                              .bias = b.data(),
                              .scale = 0.1F,
                              .weight_gradient = G.data(),
                              .bias_gradient = g.data(),
                              .input_gradient = dA.data()};
    const double loss = output_kernels(device).softmax_layer(labels.view<float>(false), layer);
    device.gemm(Transpose::no, Transpose::yes, rows, outputs, inputs, 1, A.data(), inputs, W.data(),
                inputs, 0, C.data(), outputs);
    G.push_back(static_cast<float>(loss));
    G.insert(G.end(), dA.begin(), dA.end());
    G.insert(G.end(), C.begin(), C.end());
    return G;
  };
  for (const int cores : kCoreCounts) {
    const auto expected = compute(*make_cpu_device<float>(cores));
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        const auto device = make_cpu_device<float>(cores);
        for (int repeat = 0; repeat < 20; ++repeat) wrong[t] += compute(*device) != expected;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
  }
}

}  // namespace
}  // namespace hetsgd::test
