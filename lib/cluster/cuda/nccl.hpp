// NCCL, found when it is first asked for.
#pragma once

#ifdef HETSGD_NCCL
#include <nccl.h>

#include <string_view>

namespace hetsgd::cuda {

// The functions of libnccl.so.2 that are used.
class Nccl {
 public:
  // Errors (device): there is no library.
  static const Nccl& get();

  // Errors (device): names the call and NCCL's reason. In progress is no error.
  void check(ncclResult_t result, std::string_view call) const;

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

 private:
  Nccl();
};

}  // namespace hetsgd::cuda
#endif
