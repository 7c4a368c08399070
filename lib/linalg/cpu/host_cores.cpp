// The cores of a CPU device.
#include "linalg/host_cores.hpp"

#include "linalg/cpu/cores.hpp"

namespace hetsgd::cpu {

namespace {

template <class Real>
class CpuHostCores final : public BasicHostCores<Real> {
 public:
  explicit CpuHostCores(const Cores& cores) : cores_(cores) {}
  std::size_t count() const override { return cores_.count(); }
  void run(std::size_t parts, const std::function<void(std::size_t part)>& f) override {
    cores_.run(parts, f);
  }

 private:
  const Cores& cores_;
};

const RegisterKernels<Cores, BasicHostCores, CpuHostCores> host_cores;

}  // namespace

}  // namespace hetsgd::cpu
