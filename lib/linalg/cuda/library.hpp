// A shared library of CUDA's, found when it is first asked for: a machine without it runs the rest.
#pragma once

#include <string>
#include <vector>

namespace hetsgd::cuda {

class SharedLibrary {
 public:
  // The first of `files` ("libcublas.so.13") that there is: by name as the system finds it, then
  // where CUDA was when this program was built. It stays loaded. Errors (device): `title` and the
  // reasons, with the hint.
  SharedLibrary(std::string title, const std::vector<std::string>& files, const char* hint);

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
