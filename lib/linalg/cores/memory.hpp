// Aligned host memory, in huge pages where it is large, and scratch that grows and never shrinks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/non_copyable.hpp"
#include "linalg/cores/cores.hpp"

namespace hetsgd::cpu {

// Allocates memory that is aligned to 64 bytes. From 4 MiB on it is aligned to 2 MiB and advised as
// huge pages; otherwise a row gather over a large first layer misses the TLB on every row. Not
// initialised. Error(device) if there is no memory. Never null, also for 0 bytes.
void* allocate_aligned(std::size_t bytes);
void release_aligned(void* memory) noexcept;

// Aligned memory for intermediate values of kernels. It grows and never shrinks; not thread-safe.
template <class T>
class Scratch : NonCopyable {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  ~Scratch() { release_aligned(data_); }

  // Room for `count` elements; contents are undefined after growth.
  T* reserve(std::size_t count) {
    if (count > capacity_) {
      release_aligned(std::exchange(data_, nullptr));
      capacity_ = 0;
      data_ = static_cast<T*>(allocate_aligned(count * sizeof(T)));
      capacity_ = count;
    }
    return data_;
  }

 private:
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

// Calls f(item, scratch) for every item. The scratch of its core has room for `each` elements,
// aligned.
template <class T, class F>
void for_items(const Cores& cores, Scratch<T>& scratch, std::size_t items, std::size_t each,
               F&& f) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  const std::size_t room = (each + kLine - 1) / kLine * kLine;
  const std::size_t parts = std::clamp<std::size_t>(items, 1, cores.count());
  T* const all = scratch.reserve(parts * room);
  cores.run(parts, [&](std::size_t part) {
    const Range range = part_of(items, parts, part);
    for (std::size_t item = range.begin; item < range.end; ++item) f(item, all + part * room);
  });
}

// The scratch memory of a device's kernels of one kind. A device with several cores has its own.
// Devices of one core share their thread's, since no call keeps anything in scratch for the next
// one.
template <class T>
class DeviceScratch {
 public:
  explicit DeviceScratch(const Cores& cores)
      : own_(cores.count() > 1 ? std::make_unique<T>() : nullptr) {}

  T& get() {
    if (own_) return *own_;
    thread_local T shared;
    return shared;
  }

 private:
  std::unique_ptr<T> own_;
};

}  // namespace hetsgd::cpu
