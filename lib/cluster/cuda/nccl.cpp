#include "cluster/cuda/nccl.hpp"

#ifdef HETSGD_NCCL
#include <cstdlib>

#include "core/error.hpp"
#include "linalg/cuda/library.hpp"

namespace hetsgd::cuda {

Nccl::Nccl() {
  // Sums inside of the NVLink switch come in no fixed order.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  const SharedLibrary library("NCCL", {"libnccl.so.2"},
                              "install it (libnccl2), name its folder in LD_LIBRARY_PATH, or use "
                              "--all-reduce host");
  library.load("ncclGetVersion", version);
  library.load("ncclGetErrorString", error_string);
  library.load("ncclCommInitAll", init_all);
  library.load("ncclGetUniqueId", unique_id);
  library.load("ncclCommInitRankConfig", init_rank);
  library.load("ncclCommDestroy", destroy);
  library.load("ncclCommAbort", abort);
  library.load("ncclCommGetAsyncError", async_error);
  library.load("ncclGroupStart", group_start);
  library.load("ncclGroupEnd", group_end);
  library.load("ncclAllReduce", all_reduce);
  library.load("ncclReduce", reduce);
  library.load("ncclBroadcast", broadcast);
  library.load("ncclAllGather", all_gather);
  library.load("ncclReduceScatter", reduce_scatter);
  library.load("ncclSend", send);
  library.load("ncclRecv", receive);
}

const Nccl& Nccl::get() {
  static const Nccl library;
  return library;
}

void Nccl::check(ncclResult_t result, std::string_view call) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw with_hint(device_error("{}: {}", call, error_string(result)),
                  "NCCL_DEBUG=WARN tells more; --all-reduce host does without NCCL");
}

}  // namespace hetsgd::cuda
#endif
