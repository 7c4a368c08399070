// What the emulation lets through to MPI, and what it ends the program for.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "cuda_runtime_api.h"

extern "C" int MPIX_Query_cuda_support();

namespace {

constexpr int kCount = 1000;

// The setting is read once: these come first, each in a process of its own.
void choose(const char* cuda_aware) { setenv("CUDA_EMULATION_MPI", cuda_aware, 1); }

struct Stream {
  Stream() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&it, cudaStreamNonBlocking), cudaSuccess);
  }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(it), cudaSuccess); }
  void copy(int* to, const int* from) const {
    EXPECT_EQ(cudaMemcpyAsync(to, from, kCount * sizeof(int), cudaMemcpyDefault, it), cudaSuccess);
  }
  cudaStream_t it = nullptr;
};

int* on_gpu() {
  int* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, kCount * sizeof(int)), cudaSuccess);
  return memory;
}

int* pinned(int value) {
  int* memory = nullptr;
  EXPECT_EQ(cudaMallocHost(&memory, kCount * sizeof(int)), cudaSuccess);
  std::fill_n(memory, kCount, value);
  return memory;
}

void finish(MPI_Request& request) {
  for (int complete = 0; complete == 0;) {
    ASSERT_EQ(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
}

void start_mpi() {
  int provided = 0;
  ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
}

TEST(EmulatedMpiDeathTest, ALibraryThatIsNotCudaAwareTakesNoPointerToGpuMemory) {
  choose("0");
  const auto send = [] {
    MPI_Request request;
    MPI_Isend(on_gpu(), kCount, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
  };
  EXPECT_DEATH(send(), "MPI_Isend: found a pointer to GPU memory, which this MPI library");
  EXPECT_DEATH(MPI_Recv(on_gpu(), kCount, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE),
               "MPI_Recv: found a pointer to GPU memory");
  const auto answer = [] {
    start_mpi();
    _exit(MPIX_Query_cuda_support());
  };
  EXPECT_EXIT(answer(), testing::ExitedWithCode(0), "");  // Debian's
}

TEST(EmulatedMpiDeathTest, MemoryOfThePoolIsNotForOtherProcesses) {
  choose("1");
  const auto send = [] {
    const Stream stream;
    int* memory = nullptr;
    EXPECT_EQ(cudaMallocAsync(&memory, kCount * sizeof(int), stream.it), cudaSuccess);
    MPI_Send(memory, kCount, MPI_INT, 0, 0, MPI_COMM_SELF);
  };
  EXPECT_DEATH(send(), "found memory of cudaMallocAsync");
}

TEST(EmulatedMpiDeathTest, WhoDrivesATransferHasChosenAGpu) {
  choose("1");
  const auto drive = [] {
    start_mpi();
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    MPI_Request request;
    MPI_Irecv(on_gpu(), kCount, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    std::thread([] {
      int found = 0;
      MPI_Iprobe(0, 1, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
    }).join();
  };
  EXPECT_DEATH(drive(),
               "MPI_Iprobe: a thread drives transfers of GPU memory without cudaSetDevice");
}

TEST(EmulatedMpi, ACudaAwareLibraryMovesWhatTheStreamHasDone) {
  choose("1");
  start_mpi();
  EXPECT_EQ(MPIX_Query_cuda_support(), 1);
  const Stream stream;
  int *const host = pinned(5), *const from = on_gpu(), *const to = on_gpu();
  const auto move = [&](const int* source, int* target) {
    MPI_Request requests[2];
    MPI_Irecv(target, kCount, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(source, kCount, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[1]);
    for (MPI_Request& request : requests) finish(request);
  };
  stream.copy(from, host);
  move(from, to);  // too early: the copy has not been made
  int* const back = pinned(0);
  stream.copy(back, to);
  stream.wait();
  EXPECT_NE(back[0], 5);
  move(from, to);
  stream.copy(back, to);
  stream.wait();
  EXPECT_EQ(back[0], 5);
  EXPECT_EQ(back[kCount - 1], 5);
  int* const host_side = pinned(0);
  move(from, host_side);  // to the host as well
  EXPECT_EQ(host_side[1], 5);
  MPI_Finalize();
}

}  // namespace
