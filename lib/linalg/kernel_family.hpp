// Kernel families: operations of a device that only some models need, each an interface in a header
// of its own (linalg/README.md shows how to add one).
//
// A backend (linalg/cpu, linalg/cuda) implements a family in one file, which registers it. A caller
// asks its device for a family once, with kernels<Family>(device) of device.hpp, and keeps the
// reference. The device makes the implementation at the first request and owns it.
//
// Free of fmt and of C++20: CUDA sources include this.
#pragma once

#include <map>
#include <memory>
#include <typeindex>
#include <utility>
#include <vector>

namespace hetsgd {

// Base of the interfaces. An interface is a class template over the number type with a member
// `static constexpr const char* kName`, in the plural: "sparse kernels".
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
};

// The families of one device. Implementations are constructed from the Backend, which must outlive
// them: the cores of a CPU device, the stream and libraries of a GPU.
template <class Backend>
class KernelFamilies {
 public:
  using Maker = std::unique_ptr<KernelFamily> (*)(Backend&);

  // The device's implementation of `interface`; null if the backend has none.
  KernelFamily* find(Backend& backend, std::type_index interface) {
    for (const auto& [type, family] : made_) {
      if (type == interface) return family.get();
    }
    const auto maker = makers().find(interface);
    if (maker == makers().end()) return nullptr;
    return made_.emplace_back(interface, maker->second(backend)).second.get();
  }

  static std::map<std::type_index, Maker>& makers() {
    static std::map<std::type_index, Maker> all;
    return all;
  }

 private:
  std::vector<std::pair<std::type_index, std::unique_ptr<KernelFamily>>> made_;
};

// A namespace-scope object of this type registers a backend's implementation of a family, for float
// and for double:
//   const RegisterKernels<Backend, BasicSparseKernels, CpuSparseKernels> registered;
// Nothing refers to such an object, so programs link the whole archive (lib/CMakeLists.txt).
template <class Backend, template <class> class Interface, template <class> class Implementation>
class RegisterKernels {
 public:
  RegisterKernels() {
    add<float>();
    add<double>();
  }

 private:
  template <class Real>
  static void add() {
    KernelFamilies<Backend>::makers()[typeid(Interface<Real>)] =
        [](Backend& backend) -> std::unique_ptr<KernelFamily> {
      return std::make_unique<Implementation<Real>>(backend);
    };
  }
};

}  // namespace hetsgd
