// A GPU whose memory is nearly used up.
#pragma once

#include "core/non_copyable.hpp"
#include "linalg/device.hpp"

namespace hetsgd::test {

// Takes all of a device's memory but `left` bytes, as long as it lives.
class MemoryHog : NonCopyable {
 public:
  MemoryHog(Device& device, std::size_t left) : device_(device) {
    void* const reserve = device.allocate(left);
    for (std::size_t piece = std::size_t{1} << 40; piece >= std::size_t{1} << 20;) {
      try {
        taken_.push_back(device.allocate(piece));
      } catch (const MemoryError& error) {
        piece = std::min(piece / 2, error.available());
      }
    }
    device.release(reserve);
    device.synchronize();
  }
  ~MemoryHog() {
    for (void* const piece : taken_) device_.release(piece);
    device_.synchronize();
  }

 private:
  Device& device_;
  std::vector<void*> taken_;
};

}  // namespace hetsgd::test
