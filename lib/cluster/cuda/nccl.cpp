#include "cluster/cuda/nccl.hpp"

#ifdef HETSGD_NCCL
#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "core/error.hpp"

namespace hetsgd::cuda {

namespace {

// By name as the system finds it, then where CUDA was when this program was built.
void* open() {
  const std::string name = "libnccl.so.2";
  std::string reasons;
  for (const std::string& place : {name, HETSGD_CUDA_LIBRARY_DIR "/" + name}) {
    if (void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", dlerror());
  }
  throw with_hint(device_error("NCCL: {}", reasons),
                  "install it (libnccl2), name its folder in LD_LIBRARY_PATH, or use "
                  "--all-reduce ring");
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw device_error("NCCL: no function {}: {}", name, dlerror());
}

}  // namespace

Nccl::Nccl() {
  // Sums inside of the NVLink switch come in no fixed order.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  void* const library = open();
  load(library, "ncclGetVersion", version);
  load(library, "ncclGetErrorString", error_string);
  load(library, "ncclCommInitAll", init_all);
  load(library, "ncclCommDestroy", destroy);
  load(library, "ncclCommAbort", abort);
  load(library, "ncclCommGetAsyncError", async_error);
  load(library, "ncclGroupStart", group_start);
  load(library, "ncclGroupEnd", group_end);
  load(library, "ncclAllReduce", all_reduce);
  load(library, "ncclReduce", reduce);
  load(library, "ncclBroadcast", broadcast);
  load(library, "ncclAllGather", all_gather);
  load(library, "ncclReduceScatter", reduce_scatter);
}

const Nccl& Nccl::get() {
  static const Nccl library;
  return library;
}

void Nccl::check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw with_hint(device_error("{}: {}", call, error_string(result)),
                  "NCCL_DEBUG=WARN tells more; --all-reduce ring does without NCCL");
}

}  // namespace hetsgd::cuda
#endif
