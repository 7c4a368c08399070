// The emulated NCCL between processes: the same bits as between threads, and what happens when one
// of the processes does something else, or nothing.
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

// What the processes of a test share.
struct Shared {
  std::atomic<int> id_made, step;
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
    ncclComm_t comm = nullptr;
    REQUIRE(cudaSetDevice(rank) == cudaSuccess);
    REQUIRE(ncclCommInitRank(&comm, size, id(), rank) == ncclSuccess);
    return comm;
  }
  ncclComm_t begin_to_join() const {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    REQUIRE(cudaSetDevice(rank) == cudaSuccess);
    REQUIRE(ncclCommInitRankConfig(&comm, size, id(), rank, &config) == ncclInProgress);
    return comm;
  }
  std::atomic<int>& step() const { return shared_.step; }
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

ncclResult_t all_reduce(const Buffer& buffer, ncclComm_t comm) {
  return ncclAllReduce(buffer.data, buffer.data, buffer.size, ncclFloat, ncclSum, comm,
                       buffer.stream);
}

// Each as a process of its own, with 4 GPUs. What they said on stderr; `codes` gets how they ended:
// the exit code, or the signal's number below 0.
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

void run_well(int size, const std::function<void(const Process&)>& body) {
  std::vector<int> codes;
  const std::string said = run(size, body, codes);
  EXPECT_THAT(codes, testing::Each(0)) << said;
}

float value(int rank, std::size_t i) {
  return 0.1F * static_cast<float>(rank + 1) + static_cast<float>(i * i) * 1e-3F;
}

Floats values(int rank, std::size_t count) {
  Floats all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value(rank, i);
  return all;
}

// In the order of ranks.
float sum(int size, std::size_t i) {
  float total = value(0, i);
  for (int rank = 1; rank < size; ++rank) total += value(rank, i);
  return total;
}

TEST(EmulatedNcclOfProcesses, AddsInRankOrder) {
  for (const int size : {1, 2, 3, 4}) {
    run_well(size, [](const Process& me) {
      ncclComm_t comm = me.join();
      for (const std::size_t count : {1UL, 1000UL, 100'000UL, 7UL}) {
        const Buffer buffer(values(me.rank, count));
        REQUIRE(all_reduce(buffer, comm) == ncclSuccess);
        const Floats result = buffer.values();
        for (std::size_t i = 0; i < count; ++i) REQUIRE(result[i] == sum(me.size, i));
      }
      REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
    });
  }
}

TEST(EmulatedNcclOfProcesses, EveryCollective) {
  run_well(3, [](const Process& me) {
    ncclComm_t comm = me.join();
    const std::size_t n = 5;
    const Buffer mine(values(me.rank, 3 * n)), all(Floats(3 * n)), part(Floats(n, -1));
    const cudaStream_t stream = mine.stream;
    const auto own = static_cast<std::size_t>(me.rank) * n;
    const auto fetch = [&](const Buffer& buffer) {
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      return buffer.values();
    };
    for (const Buffer* buffer : {&all, &part}) buffer->values();  // filled
    REQUIRE(ncclReduceScatter(mine.data, part.data, n, ncclFloat, ncclSum, comm, stream) ==
            ncclSuccess);
    Floats result = fetch(part);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(result[i] == sum(3, own + i));
    REQUIRE(ncclAllGather(part.data, all.data, n, ncclFloat, comm, stream) == ncclSuccess);
    result = fetch(all);
    for (std::size_t i = 0; i < 3 * n; ++i) REQUIRE(result[i] == sum(3, i));
    REQUIRE(ncclBroadcast(mine.data, all.data, 3 * n, ncclFloat, 1, comm, stream) == ncclSuccess);
    REQUIRE(fetch(all) == values(1, 3 * n));
    REQUIRE(ncclReduce(mine.data, part.data, n, ncclFloat, ncclMax, 2, comm, stream) ==
            ncclSuccess);
    result = fetch(part);
    if (me.rank == 2) REQUIRE(result == values(2, n));
    // Several of a group, of which each rank gets another one's result.
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int root = 0; root < 3; ++root) {
      float* const from = mine.data + static_cast<std::size_t>(root) * n;
      REQUIRE(ncclReduce(from, from, n, ncclFloat, ncclSum, root, comm, stream) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    result = fetch(mine);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(result[own + i] == sum(3, own + i));
    REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  });
}

TEST(EmulatedNcclOfProcesses, AGpuOfTwoRanksIsRefusedByAll) {
  run_well(3, [](const Process& me) {
    const ncclUniqueId id = me.id();
    ncclComm_t comm = nullptr;
    REQUIRE(cudaSetDevice(me.rank % 2) == cudaSuccess);
    REQUIRE(ncclCommInitRank(&comm, 3, id, me.rank) == ncclInvalidUsage);
  });
}

TEST(EmulatedNcclOfProcesses, AGpuHasTheSameNamesInAllProcesses) {
  static cudaDeviceProp* const seen =
      static_cast<cudaDeviceProp*>(mmap(nullptr, 4 * sizeof(cudaDeviceProp), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  run_well(2, [](const Process& me) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      REQUIRE(cudaGetDeviceProperties(&seen[2 * me.rank + gpu], gpu) == cudaSuccess);
    }
  });
  const auto uuid = [&](int i) { return std::string(seen[i].uuid.bytes, sizeof seen[i].uuid); };
  EXPECT_EQ(uuid(0), uuid(2));
  EXPECT_EQ(uuid(1), uuid(3));
  EXPECT_NE(uuid(0), uuid(1));
  EXPECT_EQ(seen[1].pciBusID, seen[3].pciBusID);
  EXPECT_NE(seen[0].pciBusID, seen[1].pciBusID);
}

TEST(EmulatedNcclOfProcesses, DifferentCollectivesEndAllWithAMessage) {
  std::vector<int> codes;
  const std::string said = run(
      2,
      [](const Process& me) {
        ncclComm_t comm = me.join();
        const Buffer buffer(values(me.rank, 8));
        ncclAllReduce(buffer.data, buffer.data, me.rank == 0 ? 8 : 7, ncclFloat, ncclSum, comm,
                      buffer.stream);
        buffer.values();
      },
      codes);
  EXPECT_THAT(codes, testing::Each(-SIGABRT));
  EXPECT_THAT(said, testing::HasSubstr("call different collectives"));
}

TEST(EmulatedNcclOfProcesses, AWaitForOneThatIsGoneEnds) {
  const auto body = [](const Process& me) {
    ncclComm_t comm = me.join();
    if (me.rank == 2) _exit(0);
    const Buffer buffer(values(me.rank, 8));
    REQUIRE(all_reduce(buffer, comm) == ncclSuccess);
    buffer.values();
  };
  std::vector<int> codes;
  const std::string said = run(3, body, codes, "1");
  EXPECT_EQ(codes, (std::vector<int>{-SIGABRT, -SIGABRT, 0}));
  EXPECT_THAT(said, testing::HasSubstr("no progress in 1 s"));
}

TEST(EmulatedNcclOfProcesses, WhoAbortsWaitsNoLonger) {
  run_well(2, [](const Process& me) {
    ncclComm_t comm = me.join();
    const Buffer buffer(values(me.rank, 8));
    if (me.rank == 0) {
      REQUIRE(all_reduce(buffer, comm) == ncclSuccess);
      for (int i = 0; i < 10; ++i) REQUIRE(cudaStreamQuery(buffer.stream) == cudaErrorNotReady);
      std::thread waiting([&] { buffer.values(); });
      REQUIRE(ncclCommAbort(comm) == ncclSuccess);
      waiting.join();
      me.step() = 1;
    }
    Process::until([&] { return me.step() == 1; });
    if (me.rank == 1) {  // hears nothing of it
      ncclResult_t error = ncclInternalError;
      REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
      REQUIRE(error == ncclSuccess);
    }
  });
}

TEST(EmulatedNcclOfProcesses, MemoryStaysUntilACollectiveIsOver) {
  const auto body = [](bool aborts, const Process& me) {
    ncclComm_t comm = me.join();
    if (me.rank == 1) return;
    const Buffer buffer(values(0, 8));
    buffer.values();
    cudaStream_t other = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    float* memory = nullptr;
    REQUIRE(cudaMallocAsync(&memory, 8 * sizeof(float), other) == cudaSuccess);
    REQUIRE(ncclAllReduce(memory, memory, 8, ncclFloat, ncclSum, comm, buffer.stream) ==
            ncclSuccess);
    if (aborts) REQUIRE(ncclCommAbort(comm) == ncclSuccess);
    REQUIRE(cudaFreeAsync(memory, other) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
  };
  run_well(2, [&](const Process& me) { body(true, me); });
  std::vector<int> codes;
  const std::string said = run(
      2, [&](const Process& me) { body(false, me); }, codes);
  EXPECT_EQ(codes, (std::vector<int>{-SIGABRT, 0}));
  EXPECT_THAT(said, testing::HasSubstr("given back that NCCL is going to use"));
}

TEST(EmulatedNcclOfProcesses, NothingIsDoneBeforeItsProgressIsAskedFor) {
  run_well(2, [](const Process& me) {
    ncclComm_t comm = me.begin_to_join();
    const Buffer buffer(values(me.rank, 8));
    REQUIRE(all_reduce(buffer, comm) == ncclInvalidArgument);  // it is in the making
    const auto over = [&] {
      ncclResult_t error = ncclSuccess;
      REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
      REQUIRE(error == ncclSuccess || error == ncclInProgress);
      return error == ncclSuccess;
    };
    Process::until(over);
    REQUIRE(all_reduce(buffer, comm) == ncclInProgress);
    REQUIRE(buffer.values() == values(me.rank, 8));  // the stream knows of nothing
    Process::until(over);
    REQUIRE(buffer.values()[3] == sum(2, 3));
    REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  });
}

TEST(EmulatedNcclOfProcesses, AJoinThatNobodyAnswersCanBeAborted) {
  run_well(2, [](const Process& me) {
    if (me.rank == 1) return;
    ncclComm_t comm = me.begin_to_join();
    ncclResult_t error = ncclSuccess;
    for (int i = 0; i < 10; ++i) {
      REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
      REQUIRE(error == ncclInProgress);
    }
    REQUIRE(ncclCommAbort(comm) == ncclSuccess);
  });
}

}  // namespace
