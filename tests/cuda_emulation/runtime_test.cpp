// The emulated runtime keeps the promises that tests of GPU code build on: work is done when it is
// waited for, in an order that streams and events allow, by kernels whose threads meet; and what is
// wrong on a GPU does not pass here.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <thread>

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
  // What this stream gets from now on comes after what `other` has.
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
  launch_with("add", static_cast<unsigned>(n + 31) / 32, 32, 0, stream.it, add, x, n, a);
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
  EXPECT_EQ(cudaEventQuery(second.event), cudaSuccess);
  second.wait();
  EXPECT_EQ(host[1], 3);
  EXPECT_EQ(cudaMemcpyPeerAsync(there, 0, here, 1, sizeof(int), second.it), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Streams, QueriesGetOnAndEventsTellTheTime) {
  Stream stream;
  cudaEvent_t start = nullptr;
  EXPECT_CUDA(cudaEventCreate(&start));
  EXPECT_CUDA(cudaEventRecord(start, stream.it));
  std::vector<int> order;
  for (int i = 0; i < 2; ++i) {
    EXPECT_CUDA(cudaLaunchHostFunc(
        stream.it, [](void* list) { static_cast<std::vector<int>*>(list)->push_back(1); }, &order));
  }
  EXPECT_CUDA(cudaEventRecord(stream.event, stream.it));
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, stream.event), cudaErrorNotReady);
  int queries = 0;
  while (cudaStreamQuery(stream.it) == cudaErrorNotReady) ++queries;
  EXPECT_GT(queries, 0);
  EXPECT_EQ(order.size(), 2U);
  EXPECT_CUDA(cudaEventElapsedTime(&ms, start, stream.event));
  EXPECT_GE(ms, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);  // as CUDA: queries leave it behind
  EXPECT_CUDA(cudaEventDestroy(start));
}

TEST(Streams, ThreadsDriveGpusSideBySide) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&right, t] {
      Stream stream(t % 2);
      int* const host = pinned(1000);
      int* const device = on_gpu(stream, 1000);
      std::iota(host, host + 1000, t);
      copy(device, host, 1000, stream);
      for (int i = 0; i < 20; ++i) launch_add(stream, device, 1000, i);
      copy(host, device, 1000, stream);
      stream.wait();
      right += host[999] == 999 + t + 190;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
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
  const int next = __shfl_down_sync(0xFFFFU, static_cast<int>(threadIdx.x), 1);
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
  launch_with("sum", 1, 128, 0, stream.it, sum_block, device, device + 128);
  copy(host + 128, device + 128, 1, stream);
  stream.wait();
  EXPECT_EQ(host[128], 127 * 64);
  launch_with("ballot", 1, 32, 0, stream.it, ballot_of_half, device);
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
    launch_with("wrong", 1, 32, 0, stream.it, kernel, arguments...);
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
  launch_with("other", 1, 32, 0, here.it, add, device, 1, 1);  // GPU 0's stream
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST(Memory, PeersSeeWhatTheyWereGiven) {
  Stream here(0), there(1);
  int can = 0;
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&can, 1, 0));
  ASSERT_EQ(can, 1);
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
  cudaSetDevice(1);
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(0, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_CUDA(cudaDeviceDisablePeerAccess(0));
}

TEST(Memory, EndsAndComesBack) {
  Stream stream;
  std::size_t free = 0, total = 0, left = 0;
  EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  int* first = nullptr;
  int* second = nullptr;
  EXPECT_CUDA(cudaMallocAsync(&first, free - (1 << 20), stream.it));
  EXPECT_EQ(cudaMallocAsync(&second, 2 << 20, stream.it), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaMemGetInfo(&left, &total));
  EXPECT_LE(left, std::size_t{1} << 20);
  EXPECT_CUDA(cudaFreeAsync(first, stream.it));
  EXPECT_CUDA(cudaMallocAsync(&second, 2 << 20, stream.it));
  EXPECT_CUDA(cudaFreeAsync(second, stream.it));
}

// --- graphs --------------------------------------------------------------------------------------

TEST(Graphs, ReplayWhatTwoStreamsWereGiven) {
  Stream stream, side;
  int* const host = pinned(1);
  int* const device = on_gpu(stream, 1);
  stream.wait();
  const auto capture = [&](int a) {
    EXPECT_CUDA(cudaStreamBeginCapture(stream.it, cudaStreamCaptureModeThreadLocal));
    copy(device, host, 1, stream);
    side.after(stream);
    launch_add(side, device, 1, a);
    stream.after(side);
    copy(host, device, 1, stream);
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamEndCapture(stream.it, &graph));
    return graph;
  };
  cudaGraph_t graph = capture(3);
  std::size_t nodes = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3U);
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  host[0] = 1;
  for (int i = 0; i < 2; ++i) EXPECT_CUDA(cudaGraphLaunch(exec, stream.it));
  stream.wait();
  EXPECT_EQ(host[0], 7);
  cudaGraph_t other = capture(10);
  cudaGraphExecUpdateResultInfo info;
  EXPECT_CUDA(cudaGraphExecUpdate(exec, other, &info));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream.it));
  stream.wait();
  EXPECT_EQ(host[0], 17);
  EXPECT_CUDA(cudaStreamBeginCapture(stream.it, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t smaller = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream.it, &smaller));
  EXPECT_EQ(cudaGraphExecUpdate(exec, smaller, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  for (cudaGraph_t g : {graph, other, smaller}) EXPECT_CUDA(cudaGraphDestroy(g));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST(Graphs, CapturesForbidWaitingAndLooseEnds) {
  Stream stream, side;
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream.it, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(cudaStreamSynchronize(stream.it), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream.it, &graph), cudaErrorStreamCaptureInvalidated);
  int* const device = on_gpu(side, 1);
  EXPECT_CUDA(cudaStreamBeginCapture(stream.it, cudaStreamCaptureModeGlobal));
  void* memory = nullptr;
  std::thread([&] {  // a global capture forbids it on every thread
    EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  })
      .join();
  side.after(stream);
  launch_add(side, device, 1, 1);
  EXPECT_EQ(cudaStreamEndCapture(stream.it, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_CUDA(cudaMalloc(&memory, 16));
  EXPECT_CUDA(cudaFree(memory));
}

}  // namespace
