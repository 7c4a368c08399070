// Blocks of host memory beside a device, as a kernel family, for data that do not fit its own
// memory. On a GPU the memory is pinned, so that its kernels read and write it in place, over the
// host link. Copies run beside kernels, on a stream of their own. On a CPU a copy is done when the
// call returns.
//
//   device's kernels   k1 ---- k2 ---- k3 --------- k4 waits for copy 2 ---- k5
//   copies                copy 1 (begins after k1) -- copy 2 (after k2) --|
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "linalg/device.hpp"

namespace hetsgd {

template <class Real>
class BasicHostBlocks : public KernelFamily {
 public:
  static constexpr const char* kName = "blocks of host memory";

  // 64-byte aligned, not initialised; never null. Throws Error(device) if there is not enough
  // memory.
  virtual void* allocate(std::size_t bytes) = 0;
  // Waits for earlier work of this device. No other device may use the memory any more.
  virtual void release(void* memory) noexcept = 0;

  // block[n] <- x[n] of the device, and x <- block. A copy begins when all earlier work of the
  // device is done, and copies run one after the other. Returns the copy's number, from 1.
  virtual std::uint64_t copy_out(std::size_t n, const Real* x, Real* block) = 0;
  virtual std::uint64_t copy_in(std::size_t n, const Real* block, Real* x) = 0;
  // Makes later work of the device begin after that copy.
  virtual void wait(std::uint64_t copy) = 0;
};

// Owning block for `size` elements; the device must outlive it.
template <class Real>
class BasicHostBlock {
 public:
  BasicHostBlock() = default;
  BasicHostBlock(BasicDevice<Real>& device, std::size_t size)
      : memory_(&kernels<BasicHostBlocks<Real>>(device)),
        data_(static_cast<Real*>(memory_->allocate(size * sizeof(Real)))) {}
  BasicHostBlock(BasicHostBlock&& other) noexcept { swap(other); }
  BasicHostBlock& operator=(BasicHostBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BasicHostBlock() {
    if (data_) memory_->release(data_);
  }

  Real* data() const { return data_; }

 private:
  void swap(BasicHostBlock& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
  }

  BasicHostBlocks<Real>* memory_ = nullptr;
  Real* data_ = nullptr;
};

using HostBlock = BasicHostBlock<float>;

}  // namespace hetsgd
