// A shared library of CUDA's, found when it is first asked for: a machine without it runs the rest.
#pragma once

#include <string>

namespace hetsgd::cuda {

class SharedLibrary {
 public:
  // `file`: "libcublas.so.13". By name as the system finds it, then where CUDA was when this program
  // was built. It stays loaded. Errors (device): `title` and the reasons, with the hint.
  SharedLibrary(std::string title, const std::string& file, const char* hint);

  // `pointer` <- the function of that name. Errors (device): there is none.
  template <class Function>
  void load(const char* name, Function& pointer) const {
    pointer = reinterpret_cast<Function>(address(name));
  }

 private:
  void* address(const char* name) const;

  std::string title_;
  void* handle_ = nullptr;
};

}  // namespace hetsgd::cuda
