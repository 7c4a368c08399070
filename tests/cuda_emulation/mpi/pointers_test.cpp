// The emulation ends the program if a call of MPI gets memory that the library could not use. The
// product's test cuda_mpi_aware checks that a CUDA-aware library moves GPU memory.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "cuda_runtime_api.h"

extern "C" int MPIX_Query_cuda_support();

namespace {

constexpr int kCount = 1000;

// The setting is read once: these come first, each in a process of its own.
void choose(const char* cuda_aware) { setenv("CUDA_EMULATION_MPI", cuda_aware, 1); }

int* on_gpu() {
  int* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, kCount * sizeof(int)), cudaSuccess);
  return memory;
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
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    int* memory = nullptr;
    EXPECT_EQ(cudaMallocAsync(&memory, kCount * sizeof(int), stream), cudaSuccess);
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

}  // namespace
