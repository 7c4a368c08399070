// The CUDA runtime on a CPU: it runs the project's GPU code on a machine without a GPU.
//
// Emulated: the sources of lib/linalg/cuda (and all others that call CUDA) are compiled as C++
// against the headers in include/; rewrite_launches.py turns `kernel<<<...>>>(...)` into calls.
//   kernels   : every thread of a block is a fiber, so __syncthreads and warp operations meet as on
//               a GPU; a barrier that not all threads reach, or a warp operation that a lane of
//               the mask never comes to, ends the program with a message. Blocks of a launch run
//               one after another, with their threads in different orders.
//   units     : the asynchronous copies, barriers and tensor cores of a Hopper GPU behind the
//               functions of linalg/cuda/tensor_core.cuh. Their work is over as late, or as early,
//               as the rules allow (tensor_core.cpp).
//   streams   : queues that are worked off as late as the program allows ("lazy": only operations
//               that the host waits for), at once ("eager") or in a random legal order ("random").
//               So code that lacks an event, or reads a pinned buffer too early, reads old bytes.
//   memory    : belongs to one of the emulated GPUs. Unmapped while nothing of the GPU runs:
//               host code that touches it crashes. Kernels see the memory of another GPU only
//               where its pool (cudaMallocAsync) gives them access. New and freed memory is filled
//               with NaN; writing past an allocation is noticed.
//   libraries : libcublas.so.13, libnccl.so.2 and libnvidia-ml.so.1 are found by dlopen. Not every
//               machine has cuDNN: libcudnn.so.9 is in a folder of its own, cudnn/, which is found
//               through LD_LIBRARY_PATH (or opened by its path before).
//   processes : a GPU is the same one in all (uuid), but each process has its memory to itself.
//               NCCL's communicators may have ranks in other processes of the host. MPI is the real
//               library behind a check of its pointers (mpi.cpp). Pointers to GPU memory end the
//               program, or are let through as by a CUDA-aware library.
//
// Not shown: speed; the memory model of a GPU (a missing __threadfence or fence of a unit, races
// between blocks or between warps without a barrier); limits of registers and launches beyond 1024
// threads a block; that host memory handed to a kernel would crash a GPU; rounding of fused and
// fast operations. Results of an emulated run name their device "Emulated GPU".
//
// Environment (read once): CUDA_EMULATION_
//   GPUS     number of GPUs (2); 0: the driver shows none
//   MEMORY   of each GPU, in bytes with K, M or G (2G)
//   PEERS    on (default) or off: whether GPUs can reach each other's memory
//   STREAMS  lazy (default), eager or random;  SEED: of the random order (1)
//   DRIVER   the newest CUDA version that the driver knows (13000); 0: no driver
//   CODE     found (default) or missing: no kernel image for this GPU
//   CUDNN    the number of the version of cuDNN (90600)
//   MPI      0 (default) or 1: the program's MPI library takes pointers to memory of cudaMalloc
//   HANG_S   seconds without progress after which a wait ends the program (60)
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace hetsgd_emulation {

enum class Order { lazy, eager, random };

struct Settings {
  int gpus = 2;
  std::size_t memory_bytes = std::size_t{2} << 30;
  bool peers = true;
  Order order = Order::lazy;
  std::uint64_t seed = 1;
  int driver = 13000;
  std::size_t cudnn = 90600;
  bool code = true;
  bool cuda_aware_mpi = false;
  double hang_s = 60;
};
const Settings& settings();

// A broken rule of CUDA that no error code reports: says so and ends the program.
[[noreturn]] void misuse(const std::string& text);

// --- memory --------------------------------------------------------------------------------------
// Each GPU has two arenas: peers may reach the pool, and other processes what cudaMalloc gave.
using Arenas = std::uint64_t;  // a bit for each
constexpr Arenas malloc_arena(int gpu) { return Arenas{1} << (2 * gpu); }
constexpr Arenas pool_arena(int gpu) { return Arenas{2} << (2 * gpu); }
constexpr Arenas arenas_of(int gpu) { return malloc_arena(gpu) | pool_arena(gpu); }
inline constexpr int kMostGpus = 16;

// The arena in which the address lies; 0: none of them.
Arenas arena_of(const void* memory);
int gpu_of(Arenas arena);
// The same memory where it is always mapped; settings().cuda_aware_mpi, and memory of cudaMalloc.
void* always_mapped(const void* memory);
void* take_memory(int gpu, bool pool, std::size_t bytes);  // null: full
void give_memory(void* memory);
// Marks the allocation around `memory` as needed by an operation in flight: it must not be freed
// before let_memory_go(). Does nothing if it is no device memory.
void hold_memory(const void* memory);
void let_memory_go(const void* memory);
std::size_t free_bytes(int gpu);
std::size_t pool_bytes(int gpu);  // in use by cudaMallocAsync
bool is_pinned(const void* memory);
// The memory that kernels of `gpu` may touch.
Arenas reachable(int gpu);
void set_peer_pool(int from, int owner, bool enabled);

// Arenas are mapped while an Access has them open.
class Access {
 public:
  Access() = default;
  ~Access() { change(0); }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  void change(Arenas wanted);

 private:
  Arenas open_ = 0;
};

// --- queues --------------------------------------------------------------------------------------
struct Queue;
struct Point {  // the first `count` operations of the queue are over
  std::shared_ptr<Queue> queue;
  std::uint64_t count = 0;
};

struct Operation {
  Arenas touches = 0;
  std::function<void()> run = nullptr;  // null: nothing to do
  std::vector<Point> after = {};        // of other queues
  // Asked once all of `after` is over, whenever a thread waits. false: other operations must come
  // first.
  std::function<bool(std::unique_lock<std::mutex>&)> ready = nullptr;
};

struct Queue : std::enable_shared_from_this<Queue> {
  int gpu = 0;
  std::deque<Operation> operations;
  std::uint64_t done = 0, given = 0;
  bool busy = false;
};

using Lock = std::unique_lock<std::mutex>;
extern std::mutex mutex;  // guards queues
extern std::condition_variable changed;
// While it is above 0, other processes may make operations ready without a notification.
extern std::atomic<int> waits_for_processes;

std::shared_ptr<Queue> make_queue(int gpu);
void push(Lock& lock, Queue& queue, Operation operation);
// Runs what has to run for `count` operations of the queue to be over; false: it is up to others.
// The lock is given away while an operation runs.
bool advance(Lock& lock, Queue& queue, std::uint64_t count);
void wait_for(Lock& lock, Queue& queue, std::uint64_t count);
void wait_for_gpu(Lock& lock, int gpu);
std::uint64_t random_below(std::uint64_t bound);  // under the lock

// --- what the runtime's functions share ----------------------------------------------------------
int current_gpu();                       // of this thread
bool chose_gpu();                        // this thread has called cudaSetDevice
cudaError_t report(cudaError_t status);  // remembers an error for cudaGetLastError
// A block's dynamic shared memory: every kernel may have the first number of bytes, and more, up to
// the second, if it is allowed to.
inline constexpr std::size_t kSharedBytesOfAll = 48 << 10, kMostSharedBytes = 227 << 10;
cudaError_t allow_shared_memory(std::size_t bytes);
cudaError_t checked_stream(cudaStream_t stream, std::shared_ptr<Queue>& queue);
// A library's kernel: runs once, when the stream comes to it.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run);

}  // namespace hetsgd_emulation

struct CUstream_st {
  std::shared_ptr<hetsgd_emulation::Queue> queue;
};
