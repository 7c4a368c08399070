// The emulated runtime finds faults of GPU code. Work is done no earlier than it is waited for, in
// an order that streams and events allow, by kernels whose threads meet, and code that is wrong on
// a GPU fails. Tests of the product check that it computes the results of a GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <vector>

#include "cuda_kernel_language.h"

namespace {

using hetsgd_emulation::launch_with;

// Filling 2 GiB takes its time; and this is about the laziest order.
[[maybe_unused]] const int set =
    setenv("CUDA_EMULATION_MEMORY", "64M", 1) + setenv("CUDA_EMULATION_STREAMS", "lazy", 1);

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

struct Stream {
  explicit Stream(int its_gpu = 0) : gpu(its_gpu) {
    EXPECT_CUDA(cudaSetDevice(gpu));
    EXPECT_CUDA(cudaStreamCreateWithFlags(&it, cudaStreamNonBlocking));
    EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
  }
  ~Stream() {
    cudaEventDestroy(event);
    cudaStreamDestroy(it);
  }
  void wait() const { EXPECT_CUDA(cudaStreamSynchronize(it)); }
  // Later work of this stream comes after the earlier work of `other`.
  void after(Stream& other) {
    EXPECT_CUDA(cudaEventRecord(other.event, other.it));
    EXPECT_CUDA(cudaStreamWaitEvent(it, other.event, 0));
  }
  int gpu;
  cudaStream_t it = nullptr;
  cudaEvent_t event = nullptr;
};

int* pinned(std::size_t count) {
  int* memory = nullptr;
  EXPECT_CUDA(cudaHostAlloc(&memory, count * sizeof(int), cudaHostAllocPortable));
  return memory;
}
int* on_gpu(const Stream& stream, std::size_t count) {
  int* memory = nullptr;
  EXPECT_CUDA(cudaMallocAsync(&memory, count * sizeof(int), stream.it));
  return memory;
}
void copy(int* to, const int* from, std::size_t count, const Stream& stream) {
  EXPECT_CUDA(cudaMemcpyAsync(to, from, count * sizeof(int), cudaMemcpyDefault, stream.it));
}

void add(int* x, int n, int a) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += a;
}
void launch_add(const Stream& stream, int* x, int n, int a) {
  EXPECT_CUDA(cudaSetDevice(stream.gpu));
  launch_with(static_cast<unsigned>(n + 31) / 32, 32, 0, stream.it, add, x, n, a);
}

TEST(Streams, WorkWaitsUntilItIsWaitedFor) {
  Stream stream;
  int* const host = pinned(2);
  int* const device = on_gpu(stream, 1);
  host[0] = 1;
  copy(device, host, 1, stream);
  launch_add(stream, device, 1, 10);
  copy(host + 1, device, 1, stream);
  host[0] = 5;  // too early: the copy has not been made
  stream.wait();
  EXPECT_EQ(host[1], 15);
  std::vector<int> pageable{7};  // such a copy is staged, and back it is waited for
  copy(device, pageable.data(), 1, stream);
  pageable[0] = 0;
  launch_add(stream, device, 1, 1);
  copy(pageable.data(), device, 1, stream);
  EXPECT_EQ(pageable[0], 8);
}

TEST(Streams, EventsOrderStreamsOfSeveralGpus) {
  Stream first(0), second(1);
  int* const host = pinned(2);
  int* const here = on_gpu(first, 1);
  int* const there = on_gpu(second, 1);
  host[0] = 1;
  copy(here, host, 1, first);
  launch_add(first, here, 1, 1);
  second.after(first);
  EXPECT_CUDA(cudaMemcpyPeerAsync(there, 1, here, 0, sizeof(int), second.it));
  first.after(second);
  launch_add(first, here, 1, 100);
  copy(host, here, 1, first);
  launch_add(second, there, 1, 1);
  copy(host + 1, there, 1, second);
  first.wait();
  EXPECT_EQ(host[0], 102);
  second.wait();
  EXPECT_EQ(host[1], 3);
  EXPECT_EQ(cudaMemcpyPeerAsync(there, 0, here, 1, sizeof(int), second.it), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// --- kernels -------------------------------------------------------------------------------------

void sum_block(const int* x, int* sum) {
  __shared__ int warps[4];
  int mine = x[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) {
    mine += __shfl_xor_sync(0xFFFFFFFFU, mine, distance);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) *sum = warps[0] + warps[1] + warps[2] + warps[3];
}
void ballot_of_half(int* out) {
  if (threadIdx.x >= 16) return;
  const unsigned even = __ballot_sync(0xFFFFU, threadIdx.x % 2 == 0);
  const int next =
      __shfl_sync(0xFFFFU, static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.x + 1) % 16);
  if (threadIdx.x == 3) *out = static_cast<int>(even) * 100 + next;
}
void half_at_a_barrier(int) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __shfl_sync(0xFFFFFFFFU, 1, 0);
  }
}

TEST(Kernels, ThreadsMeet) {
  Stream stream;
  int* const host = pinned(129);
  int* const device = on_gpu(stream, 129);
  std::iota(host, host + 128, 0);
  copy(device, host, 128, stream);
  launch_with(1, 128, 0, stream.it, sum_block, device, device + 128);
  copy(host + 128, device + 128, 1, stream);
  stream.wait();
  EXPECT_EQ(host[128], 127 * 64);
  launch_with(1, 32, 0, stream.it, ballot_of_half, device);
  copy(host, device, 1, stream);
  stream.wait();
  EXPECT_EQ(host[0], 0x5555 * 100 + 4);
}

TEST(Kernels, WhatIsWrongOnAGpuEndsTheProgram) {
  Stream here(0), there(1);
  int* const device = on_gpu(here, 4);
  EXPECT_CUDA(cudaStreamSynchronize(here.it));
  EXPECT_DEATH(*static_cast<volatile int*>(device) = 1, "");  // the host
  const auto run = [&](const Stream& stream, auto kernel, auto... arguments) {
    cudaSetDevice(stream.gpu);
    launch_with(1, 32, 0, stream.it, kernel, arguments...);
    cudaStreamSynchronize(stream.it);
  };
  EXPECT_DEATH(run(here, half_at_a_barrier, 0), "wait for ones that went another way");
  EXPECT_DEATH(run(there, add, device, 1, 1), "");  // no access to the other GPU's pool
  EXPECT_DEATH(
      {
        run(here, add, device, 5, 1);  // the fifth of four
        cudaFreeAsync(device, here.it);
        cudaStreamSynchronize(here.it);
      },
      "past an allocation|AddressSanitizer");
  cudaSetDevice(1);
  launch_with(1, 32, 0, here.it, add, device, 1, 1);  // GPU 0's stream
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST(Memory, PeersSeeThePoolThatTheyWereGiven) {
  Stream here(0), there(1);
  int* const pool = on_gpu(here, 1);
  EXPECT_CUDA(cudaMemsetAsync(pool, 0, sizeof(int), here.it));
  here.wait();
  cudaMemPool_t owner = nullptr;
  EXPECT_CUDA(cudaDeviceGetDefaultMemPool(&owner, 0));
  const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  EXPECT_CUDA(cudaMemPoolSetAccess(owner, &access, 1));
  launch_add(there, pool, 1, 3);
  int result = 0;
  copy(&result, pool, 1, there);
  EXPECT_EQ(result, 3);
}

}  // namespace
