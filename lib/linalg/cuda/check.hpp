// Every CUDA call is checked. Free of fmt: CUDA sources include this.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace hetsgd::cuda {

// Throws Error(device) that names the call, the current device and CUDA's reason, with a hint.
[[noreturn]] void fail(cudaError_t status, const char* call);
// The same for memory, as a MemoryError: `bytes` were needed for `purpose` beside `held` bytes that
// a smaller batch would not need.
[[noreturn]] void fail_memory(cudaError_t status, std::size_t bytes, const char* purpose,
                              std::size_t held);
// The same for memory of the current device's pool, requested in `stream`. The free memory then
// says little: the pool grows by large steps, and its memory may lie in pieces. So the available
// memory is found by requesting less.
[[noreturn]] void fail_pool(cudaError_t status, std::size_t bytes, const char* purpose,
                            std::size_t held, cudaStream_t stream);

// Throws Error(device) about a size that the kernels are not made for: "found 300 numbers of a
// head, expected at most 256", where `what` is "numbers of a head".
[[noreturn]] void fail_size(const char* what, std::size_t found, std::size_t most,
                            const char* hint);

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) fail(status, call);
}
// Checks a launch. A kernel that fails while it runs is reported by a later call.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace hetsgd::cuda

#define HETSGD_CUDA(call) ::hetsgd::cuda::check((call), #call)
