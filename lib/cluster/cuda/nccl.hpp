// NCCL, found when it is first asked for: a machine without the library runs everything else.
#pragma once

#ifdef HETSGD_NCCL
#include <nccl.h>

#include <string_view>

#include "linalg/cuda/library.hpp"

namespace hetsgd::cuda {

// The functions of libnccl.so.2 that are used. The binary is built with NCCL's header and not
// linked with the library, whose types the header gives. One object per process, made at the first
// get() and never unloaded; thread-safe, as it does not change.
//
// Sums must have the same bits in every run, so open() turns NVLink SHARP off
// (NCCL_NVLS_ENABLE=0), unless the environment says otherwise.
class Nccl {
 public:
  // Throws Error(device) if there is no library, or if it lacks a function; the hint says what to
  // do. The next call tries again.
  static const Nccl& get();

  // Throws Error(device) naming the call and NCCL's reason. "In progress" is no error: the
  // communicators between processes do not block, and their calls return it.
  void check(ncclResult_t result, std::string_view call) const;

 private:
  Nccl() = default;
  // Loads the library.
  static SharedLibrary open();
  const SharedLibrary library_ = open();

 public:
  // Named as in NCCL, without its prefix.
  decltype(&ncclGetVersion) version = library_.function("ncclGetVersion");
  decltype(&ncclGetErrorString) error_string = library_.function("ncclGetErrorString");
  decltype(&ncclCommInitAll) init_all = library_.function("ncclCommInitAll");
  decltype(&ncclGetUniqueId) unique_id = library_.function("ncclGetUniqueId");
  decltype(&ncclCommInitRankConfig) init_rank = library_.function("ncclCommInitRankConfig");
  decltype(&ncclCommDestroy) destroy = library_.function("ncclCommDestroy");
  decltype(&ncclCommAbort) abort = library_.function("ncclCommAbort");
  decltype(&ncclCommGetAsyncError) async_error = library_.function("ncclCommGetAsyncError");
  decltype(&ncclGroupStart) group_start = library_.function("ncclGroupStart");
  decltype(&ncclGroupEnd) group_end = library_.function("ncclGroupEnd");
  decltype(&ncclAllReduce) all_reduce = library_.function("ncclAllReduce");
  decltype(&ncclReduce) reduce = library_.function("ncclReduce");
  decltype(&ncclBroadcast) broadcast = library_.function("ncclBroadcast");
  decltype(&ncclAllGather) all_gather = library_.function("ncclAllGather");
  decltype(&ncclReduceScatter) reduce_scatter = library_.function("ncclReduceScatter");
  decltype(&ncclSend) send = library_.function("ncclSend");
  decltype(&ncclRecv) receive = library_.function("ncclRecv");
};

}  // namespace hetsgd::cuda
#endif
