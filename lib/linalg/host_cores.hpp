// The kernel family of a CPU's cores themselves, for algorithms with computations that are no
// kernels of a device: tables of hashes, samples of labels. A GPU has none.
#pragma once

#include <cstddef>
#include <functional>

#include "linalg/kernel_family.hpp"

namespace hetsgd {

class HostCores : public KernelFamily {
 public:
  virtual std::size_t count() const = 0;
  // Calls f(part) for part = 0 .. parts - 1, parts <= count(), at the same time. Returns when all
  // are done. f must not throw.
  virtual void run(std::size_t parts, const std::function<void(std::size_t part)>& f) = 0;
};

// The family, as devices register it.
template <class Real>
class BasicHostCores : public HostCores {
 public:
  static constexpr const char* kName = "cores for the host's own code";
};

}  // namespace hetsgd
