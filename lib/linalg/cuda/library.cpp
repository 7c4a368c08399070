#include "linalg/cuda/library.hpp"

#include <dlfcn.h>

#include "core/error.hpp"

namespace hetsgd::cuda {

SharedLibrary::SharedLibrary(std::string title, const std::vector<std::string>& files,
                             const char* hint)
    : title_(std::move(title)) {
  std::string reasons;
  for (const std::string& file : files) {
    for (const std::string& place : {file, HETSGD_CUDA_LIBRARY_DIR "/" + file}) {
      handle_ = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", dlerror());
    }
  }
  throw with_hint(device_error("{}: {}", title_, reasons), hint);
}

SharedLibrary::Function SharedLibrary::function(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) throw device_error("{}: no function {}: {}", title_, name, dlerror());
  return Function(found);
}

}  // namespace hetsgd::cuda
