// The cores of a CPU device.
#include "linalg/host_cores.hpp"

#include <algorithm>

#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/host_blocks.hpp"

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

const RegisterKernels<Backend, BasicHostCores, CpuHostCores> host_cores;

}  // namespace

// Blocks of host memory of a CPU can be any memory.

namespace {

template <class Real>
class CpuHostBlocks final : public BasicHostBlocks<Real> {
 public:
  explicit CpuHostBlocks(const Cores& /*cores*/) {}

  void* allocate(std::size_t bytes) override { return allocate_aligned(bytes); }
  void release(void* memory) noexcept override { release_aligned(memory); }
  std::uint64_t copy_out(std::size_t n, const Real* x, Real* block) override {
    std::copy_n(x, n, block);
    return ++copies_;
  }
  std::uint64_t copy_in(std::size_t n, const Real* block, Real* x) override {
    std::copy_n(block, n, x);
    return ++copies_;
  }
  void wait(std::uint64_t /*copy*/) override {}

 private:
  std::uint64_t copies_ = 0;
};

const RegisterKernels<Backend, BasicHostBlocks, CpuHostBlocks> host_blocks;

}  // namespace

}  // namespace hetsgd::cpu
