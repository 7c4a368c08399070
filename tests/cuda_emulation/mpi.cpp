// A look at the pointers that the program gives to MPI, through MPI's profiling interface. It is a
// part of the program, so that its functions come before the library's.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>

#include <set>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

// Requests with GPU memory. Any thread that calls MPI drives them all and copies on a GPU, for
// which it needs a GPU of its own choice.
std::mutex requests_mutex;
std::multiset<MPI_Request>& requests() {
  static auto* const all = new std::multiset<MPI_Request>;
  return *all;
}
std::atomic<std::size_t> under_way = 0;

void drive(const char* call) {
  if (under_way > 0 && !chose_gpu()) {
    misuse(fmt::format("{}: a thread drives transfers of GPU memory without cudaSetDevice", call));
  }
}

// The memory that the library itself may touch. An MPI library hands memory to other processes,
// which CUDA allows for memory of cudaMalloc alone.
void* reachable_memory(const void* memory, const char* call) {
  const Arenas arena = arena_of(memory);
  if (arena == 0) {
    drive(call);
    return const_cast<void*>(memory);
  }
  if (!settings().cuda_aware_mpi) {
    misuse(fmt::format("{}: found a pointer to GPU memory, which this MPI library does not take",
                       call));
  }
  if (arena != malloc_arena(gpu_of(arena))) {
    misuse(fmt::format("{}: found memory of cudaMallocAsync, which other processes cannot open",
                       call));
  }
  if (!chose_gpu()) misuse(fmt::format("{}: GPU memory from a thread without cudaSetDevice", call));
  return always_mapped(memory);
}

int started(int code, const void* memory, const MPI_Request* request) {
  if (code != MPI_SUCCESS || arena_of(memory) == 0) return code;
  const std::lock_guard guard(requests_mutex);
  requests().insert(*request);
  under_way = requests().size();
  return code;
}

void ended(MPI_Request request) {
  if (under_way == 0) return;
  const std::lock_guard guard(requests_mutex);
  if (const auto found = requests().find(request); found != requests().end()) {
    requests().erase(found);
  }
  under_way = requests().size();
}

}  // namespace
}  // namespace hetsgd_emulation

using hetsgd_emulation::drive;
using hetsgd_emulation::reachable_memory;
using hetsgd_emulation::started;

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
  return started(
      PMPI_Isend(reachable_memory(data, "MPI_Isend"), count, type, to, tag, comm, request), data,
      request);
}
int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return started(
      PMPI_Issend(reachable_memory(data, "MPI_Issend"), count, type, to, tag, comm, request), data,
      request);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  return PMPI_Recv(reachable_memory(data, "MPI_Recv"), count, type, from, tag, comm, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return started(
      PMPI_Irecv(reachable_memory(data, "MPI_Irecv"), count, type, from, tag, comm, request), data,
      request);
}
int MPI_Imrecv(void* data, int count, MPI_Datatype type, MPI_Message* message,
               MPI_Request* request) {
  return started(PMPI_Imrecv(reachable_memory(data, "MPI_Imrecv"), count, type, message, request),
                 data, request);
}
int MPI_Test(MPI_Request* request, int* complete, MPI_Status* status) {
  drive("MPI_Test");
  const MPI_Request before = *request;
  const int code = PMPI_Test(request, complete, status);
  if (code != MPI_SUCCESS || *complete != 0) hetsgd_emulation::ended(before);
  return code;
}
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  drive("MPI_Iprobe");
  return PMPI_Iprobe(from, tag, comm, found, status);
}
int MPI_Improbe(int from, int tag, MPI_Comm comm, int* found, MPI_Message* message,
                MPI_Status* status) {
  drive("MPI_Improbe");
  return PMPI_Improbe(from, tag, comm, found, message, status);
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
