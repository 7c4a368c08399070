// The emulated NCCL between processes: a sum in rank order, and the behaviour when one of the
// processes does something else, or nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Floats = std::vector<float>;

// A broken expectation ends its process: gtest's own would be told to the child alone.
#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                \
    }                                                                          \
  } while (false)

// Memory that the processes of a test share.
struct Shared {
  std::atomic<int> id_made;
  ncclUniqueId id;
};

class Process {
 public:
  Process(Shared& shared, int its_rank, int its_size)
      : rank(its_rank), size(its_size), shared_(shared) {}

  // Made by rank 0, as if sent to the others.
  const ncclUniqueId& id() const {
    if (rank == 0) {
      REQUIRE(ncclGetUniqueId(&shared_.id) == ncclSuccess);
      shared_.id_made = 1;
    }
    until([this] { return shared_.id_made == 1; });
    return shared_.id;
  }
  // On a GPU of its own.
  ncclComm_t join() const {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    REQUIRE(cudaSetDevice(rank) == cudaSuccess);
    REQUIRE(ncclCommInitRankConfig(&comm, size, id(), rank, &config) == ncclInProgress);
    finish(comm);
    return comm;
  }
  // Returns when all calls that were begun are over.
  static void finish(ncclComm_t comm) {
    until([comm] {
      ncclResult_t error = ncclSuccess;
      REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
      REQUIRE(error == ncclSuccess || error == ncclInProgress);
      return error == ncclSuccess;
    });
  }
  static void until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  const int rank, size;

 private:
  Shared& shared_;
};

struct Buffer {
  explicit Buffer(const Floats& values) : size(values.size()) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaMalloc(&data, size * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(data, values.data(), size * sizeof(float), cudaMemcpyDefault, stream) ==
            cudaSuccess);
  }
  Floats values() const {
    Floats host(size);
    REQUIRE(cudaMemcpyAsync(host.data(), data, size * sizeof(float), cudaMemcpyDefault, stream) ==
            cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return host;
  }
  std::size_t size;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
};

void all_reduce(float* data, std::size_t count, ncclComm_t comm, cudaStream_t stream) {
  REQUIRE(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream) == ncclInProgress);
  Process::finish(comm);
}

// Runs each rank in a process of its own, with 4 GPUs. Returns their stderr. `codes` gets how they
// ended: the exit code, or the signal's number below 0.
std::string run(int size, const std::function<void(const Process&)>& body, std::vector<int>& codes,
                const char* patience_s = "20") {
  auto* const shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    setenv("CUDA_EMULATION_GPUS", "4", 1);
    setenv("CUDA_EMULATION_MEMORY", "64M", 1);
    setenv("CUDA_EMULATION_HANG_S", patience_s, 1);
    body(Process(*shared, rank, size));
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char text[4096];
  for (ssize_t n = 0; (n = read(ends[0], text, sizeof text)) > 0;) {
    said.append(text, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
  munmap(shared, sizeof(Shared));
  return said;
}

// A call does nothing before its progress is asked for: until then the stream knows of nothing.
TEST(EmulatedNcclOfProcesses, AddsInRankOrder) {
  std::vector<int> codes;
  const std::string said = run(
      3,
      [](const Process& me) {
        ncclComm_t comm = me.join();
        const auto value = [](int rank) { return 0.1F * static_cast<float>(rank + 1); };
        const Buffer buffer(Floats(1000, value(me.rank)));
        REQUIRE(ncclAllReduce(buffer.data, buffer.data, 1000, ncclFloat32, ncclSum, comm,
                              buffer.stream) == ncclInProgress);
        REQUIRE(buffer.values()[0] == value(me.rank));
        Process::finish(comm);
        REQUIRE(buffer.values() == Floats(1000, value(0) + value(1) + value(2)));
        REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
      },
      codes);
  EXPECT_THAT(codes, testing::Each(0)) << said;
}

TEST(EmulatedNcclOfProcesses, DifferentCollectivesEndAllWithAMessage) {
  std::vector<int> codes;
  const std::string said = run(
      2,
      [](const Process& me) {
        ncclComm_t comm = me.join();
        const Buffer buffer(Floats(8));
        all_reduce(buffer.data, me.rank == 0 ? 8 : 7, comm, buffer.stream);
        buffer.values();
      },
      codes);
  EXPECT_THAT(codes, testing::Each(-SIGABRT));
  EXPECT_THAT(said, testing::HasSubstr("call different collectives"));
}

TEST(EmulatedNcclOfProcesses, AWaitForOneThatIsGoneEnds) {
  std::vector<int> codes;
  const std::string said = run(
      3,
      [](const Process& me) {
        ncclComm_t comm = me.join();
        if (me.rank == 2) _exit(0);
        const Buffer buffer(Floats(8));
        all_reduce(buffer.data, 8, comm, buffer.stream);
        buffer.values();
      },
      codes, "1");
  EXPECT_EQ(codes, (std::vector<int>{-SIGABRT, -SIGABRT, 0}));
  EXPECT_THAT(said, testing::HasSubstr("no progress in 1 s"));
}

TEST(EmulatedNcclOfProcesses, MemoryStaysUntilACollectiveIsOver) {
  std::vector<int> codes;
  const std::string said = run(
      2,
      [](const Process& me) {
        ncclComm_t comm = me.join();
        if (me.rank == 1) return;
        const Buffer buffer(Floats(8)), other(Floats(8));
        float* memory = nullptr;
        REQUIRE(cudaMallocAsync(&memory, 8 * sizeof(float), other.stream) == cudaSuccess);
        all_reduce(memory, 8, comm, buffer.stream);
        REQUIRE(cudaFreeAsync(memory, other.stream) == cudaSuccess);
        other.values();
      },
      codes);
  EXPECT_EQ(codes, (std::vector<int>{-SIGABRT, 0}));
  EXPECT_THAT(said, testing::HasSubstr("given back that NCCL is going to use"));
}

}  // namespace
