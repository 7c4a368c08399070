// cuDNN for tests with GPUs: the installed one. Beside emulated GPUs it is the emulated one, which
// is not where the program looks. HETSGD_TEST_CUDNN is its file (cmake/HetsgdTargets.cmake).
#pragma once

#include <dlfcn.h>

namespace hetsgd::test {

// From here on every request for libcudnn.so.9 in this process gets this one. Null: there is none.
inline void* open_cudnn() {
  static void* const library = dlopen(HETSGD_TEST_CUDNN, RTLD_NOW | RTLD_LOCAL);
  return library;
}

// Handles and descriptors that were made and not destroyed, or made ever. -1: a real library, which
// does not say.
inline int cudnn_count(const char* name) {
  const auto count = reinterpret_cast<int (*)()>(dlsym(open_cudnn(), name));
  return count == nullptr ? -1 : count();
}
inline int cudnn_alive() { return cudnn_count("cudnnEmulationAlive"); }
inline int cudnn_made() { return cudnn_count("cudnnEmulationMade"); }

}  // namespace hetsgd::test
