// A look at the pointers that the program gives to MPI, through MPI's profiling interface. It is a
// part of the program, so that its functions come before the library's.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

// What the library itself may touch. An MPI library hands memory to other processes, which CUDA
// allows for that of cudaMalloc alone.
void* reachable_memory(const void* memory, const char* call) {
  const Arenas arena = arena_of(memory);
  if (arena == 0) return const_cast<void*>(memory);
  if (!settings().cuda_aware_mpi) {
    misuse(fmt::format("{}: found a pointer to GPU memory, which this MPI library does not take",
                       call));
  }
  if (arena != malloc_arena(gpu_of(arena))) {
    misuse(fmt::format("{}: found memory of cudaMallocAsync, which other processes cannot open",
                       call));
  }
  return always_mapped(memory);
}

}  // namespace
}  // namespace hetsgd_emulation

using hetsgd_emulation::reachable_memory;

extern "C" {

int MPIX_Query_cuda_support() {
  if (hetsgd_emulation::settings().cuda_aware_mpi) return 1;
  using Query = int (*)();
  const auto library = reinterpret_cast<Query>(dlsym(RTLD_NEXT, "MPIX_Query_cuda_support"));
  return library != nullptr ? library() : 0;
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return PMPI_Send(reachable_memory(data, "MPI_Send"), count, type, to, tag, comm);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return PMPI_Isend(reachable_memory(data, "MPI_Isend"), count, type, to, tag, comm, request);
}
int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return PMPI_Issend(reachable_memory(data, "MPI_Issend"), count, type, to, tag, comm, request);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  return PMPI_Recv(reachable_memory(data, "MPI_Recv"), count, type, from, tag, comm, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return PMPI_Irecv(reachable_memory(data, "MPI_Irecv"), count, type, from, tag, comm, request);
}
int MPI_Imrecv(void* data, int count, MPI_Datatype type, MPI_Message* message,
               MPI_Request* request) {
  return PMPI_Imrecv(reachable_memory(data, "MPI_Imrecv"), count, type, message, request);
}
int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return PMPI_Allreduce(reachable_memory(send, "MPI_Allreduce"),
                        reachable_memory(receive, "MPI_Allreduce"), count, type, op, comm);
}
int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  return PMPI_Allgather(reachable_memory(send, "MPI_Allgather"), send_count, send_type,
                        reachable_memory(receive, "MPI_Allgather"), receive_count, receive_type,
                        comm);
}

}  // extern "C"
