// A CUDA library, loaded when it is first asked for: a machine without it runs everything else.
#pragma once

#include <string>
#include <vector>

namespace hetsgd::cuda {

class SharedLibrary {
 public:
  // Loads the first of `files` ("libcublas.so.13") that exists: by name as the system finds it,
  // then in the CUDA folder of the build. It stays loaded. Throws Error(device) with `title`, the
  // reasons and the hint if none of them can be loaded.
  SharedLibrary(std::string title, const std::vector<std::string>& files, const char* hint);

  // A function, which converts to the pointer type that it is assigned to.
  class Function {
   public:
    explicit Function(void* address) : address_(address) {}
    template <class Signature>
    operator Signature*() const {  // NOLINT: that is its purpose
      return reinterpret_cast<Signature*>(address_);
    }

   private:
    void* address_;
  };
  // The function of that name. Throws Error(device) if it is missing.
  Function function(const char* name) const;

 private:
  std::string title_;
  void* handle_ = nullptr;
};

}  // namespace hetsgd::cuda
