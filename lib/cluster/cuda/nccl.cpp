#include "cluster/cuda/nccl.hpp"

#ifdef HETSGD_NCCL
#include <cstdlib>

#include "core/error.hpp"

namespace hetsgd::cuda {

SharedLibrary Nccl::open() {
  // Sums inside of the NVLink switch come in no fixed order.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  return {"NCCL",
          {"libnccl.so.2"},
          "install it (libnccl2), name its folder in LD_LIBRARY_PATH, or use --all-reduce host"};
}

const Nccl& Nccl::get() {
  static const Nccl library;
  return library;
}

void Nccl::check(ncclResult_t result, std::string_view call) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw with_hint(device_error("{}: {}", call, error_string(result)),
                  "NCCL_DEBUG=WARN shows more; --all-reduce host works without NCCL");
}

}  // namespace hetsgd::cuda
#endif
