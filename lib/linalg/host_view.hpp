// Device memory as the host sees it: the memory itself if the host reaches it (on a CPU always),
// else a copy in host memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "core/units.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// Host memory that grows and never shrinks, not initialised.
class HostScratch {
 public:
  // Contents are undefined after growth.
  std::byte* reserve(std::size_t bytes) {
    if (!data_ || bytes > capacity_) {
      data_.reset();
      data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      capacity_ = bytes;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t capacity_ = 0;
};

// A view lasts for one use of the memory. Its copy lies in `scratch`, which one view at a time may
// use, so that successive views allocate once.
class HostView {
 public:
  // How the host uses the memory: it reads, writes all of it, or both.
  enum class Use { read, write, update };

  // Returns when the host may read. device == nullptr means host memory. `tell`, unless null, is
  // called after each copy with the time that it took.
  HostView(Device* device, Use use, void* memory, std::size_t bytes, HostScratch& scratch,
           void (*tell)(Seconds) = nullptr)
      : device_(device),
        memory_(static_cast<std::byte*>(memory)),
        host_(memory_),
        bytes_(bytes),
        copied_(tell) {
    if (!device || bytes == 0 || device->host_accessible(memory)) return;
    host_ = scratch.reserve(bytes);
    if (use != Use::write) copy([&] { device_->download(host_, memory_, bytes_); });
  }
  HostView(Device* device, std::span<const float> memory, HostScratch& scratch)
      : HostView(device, Use::read, const_cast<float*>(memory.data()), memory.size_bytes(),
                 scratch) {}

  std::byte* data() const { return host_; }
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(host_), bytes_ / sizeof(float)};
  }
  // Whether data() is a copy.
  bool copied() const { return host_ != memory_; }

  // After write and update: returns when the device has the bytes [begin, end) that the host wrote.
  // Other devices may use the memory then.
  void store() const { store(0, bytes_); }
  void store(std::size_t begin, std::size_t end) const {
    if (!copied() || begin == end) return;
    copy([&] {
      device_->upload(memory_ + begin, host_ + begin, end - begin);
      device_->synchronize();
    });
  }

 private:
  template <class Call>
  void copy(const Call& call) const {
    const auto begin = std::chrono::steady_clock::now();
    call();
    if (copied_) copied_(std::chrono::steady_clock::now() - begin);
  }

  Device* device_;
  std::byte* memory_;
  std::byte* host_;
  std::size_t bytes_;
  void (*copied_)(Seconds);
};

}  // namespace hetsgd
