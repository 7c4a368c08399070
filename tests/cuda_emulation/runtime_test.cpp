// The emulated runtime must find faults of GPU code, or the product's tests on it show nothing.
// Work is done no earlier than it is waited for, and code that is wrong on a GPU fails. Tests of
// the product check that it computes the results of a GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "cuda_kernel_language.h"

namespace {

using hetsgd_emulation::launch_with;

// Filling 2 GiB takes its time; and this is about the laziest order.
[[maybe_unused]] const int set =
    setenv("CUDA_EMULATION_MEMORY", "64M", 1) + setenv("CUDA_EMULATION_STREAMS", "lazy", 1);

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

cudaStream_t stream_of(int gpu) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaSetDevice(gpu));
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
int* on_gpu(cudaStream_t stream, std::size_t count) {
  int* memory = nullptr;
  EXPECT_CUDA(cudaMallocAsync(&memory, count * sizeof(int), stream));
  return memory;
}
void copy(int* to, const int* from, cudaStream_t stream) {
  EXPECT_CUDA(cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDefault, stream));
}

void add(int* x, int n, int a) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += a;
}
void half_at_a_barrier(int) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __shfl_sync(0xFFFFFFFFU, 1, 0);
  }
}

TEST(EmulatedRuntime, WorkWaitsUntilItIsWaitedFor) {
  cudaStream_t stream = stream_of(0);
  int* host = nullptr;
  EXPECT_CUDA(cudaHostAlloc(&host, 2 * sizeof(int), cudaHostAllocPortable));
  int* const device = on_gpu(stream, 1);
  host[0] = 1;
  copy(device, host, stream);
  launch_with(1, 32, 0, stream, add, device, 1, 10);
  copy(host + 1, device, stream);
  host[0] = 5;  // too early: the copy has not been made
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(host[1], 15);
  std::vector<int> pageable{7};  // such a copy is staged, and back it is waited for
  copy(device, pageable.data(), stream);
  pageable[0] = 0;
  launch_with(1, 32, 0, stream, add, device, 1, 1);
  copy(pageable.data(), device, stream);
  EXPECT_EQ(pageable[0], 8);
}

TEST(EmulatedRuntime, WhatIsWrongOnAGpuEndsTheProgram) {
  cudaStream_t here = stream_of(0);
  cudaStream_t there = stream_of(1);
  int* const device = on_gpu(here, 4);
  EXPECT_CUDA(cudaStreamSynchronize(here));
  EXPECT_DEATH(*static_cast<volatile int*>(device) = 1, "");  // the host
  const auto run = [&](int gpu, auto kernel, auto... arguments) {
    cudaSetDevice(gpu);
    launch_with(1, 32, 0, gpu == 0 ? here : there, kernel, arguments...);
    cudaStreamSynchronize(gpu == 0 ? here : there);
  };
  EXPECT_DEATH(run(0, half_at_a_barrier, 0), "wait for ones that went another way");
  EXPECT_DEATH(run(1, add, device, 1, 1), "");  // no access to the other GPU's pool
  EXPECT_DEATH(
      {
        run(0, add, device, 5, 1);  // the fifth of four
        cudaFreeAsync(device, here);
        cudaStreamSynchronize(here);
      },
      "past an allocation|AddressSanitizer");
  cudaSetDevice(1);
  launch_with(1, 32, 0, here, add, device, 1, 1);  // GPU 0's stream
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

}  // namespace
