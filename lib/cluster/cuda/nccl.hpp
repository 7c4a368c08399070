// NCCL, found when it is first asked for: a machine without the library runs everything else.
#pragma once

#ifdef HETSGD_NCCL
#include <nccl.h>

#include <string_view>

namespace hetsgd::cuda {

// The functions of libnccl.so.2 that are used. The binary is built with NCCL's header and not
// linked with the library, whose types the header gives. One object per process, made at the first
// get() and never unloaded; thread-safe, as it does not change.
//
// Sums must have the same bits in every run, so its constructor turns NVLink SHARP off
// (NCCL_NVLS_ENABLE=0), unless the environment says otherwise.
class Nccl {
 public:
  // Errors (device): there is no library, or it lacks a function; the hint says what to do. The
  // next call tries again.
  static const Nccl& get();

  // Errors (device): names the call and NCCL's reason. In progress is no error: the communicators
  // between processes do not block, and their calls return it.
  void check(ncclResult_t result, std::string_view call) const;

  // Named as in NCCL, without its prefix.
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;

 private:
  // Loads the library, and every function above.
  Nccl();
};

}  // namespace hetsgd::cuda
#endif
