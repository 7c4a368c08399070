// Bytes in flight, and a free list of the objects that carry them: small messages allocate nothing
// once the run is warm; large buffers are freed as soon as they are delivered. Both matter with ten
// thousand workers: the allocator would be called for every token, and one round of models that
// stay allocated would be a second copy of all replicas.
//
// Not thread-safe: all of it belongs to the event loop's thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace hetsgd::sim {

// A copy of somebody's bytes, as the caller may change its own when the call has returned. The
// content is aligned for any type (it comes from new[]), so floats can be read in place.
class Payload {
 public:
  // Replaces the content. The old buffer is used again where it is large enough.
  void assign(std::span<const std::byte> bytes) {
    if (bytes.size() > capacity_) {
      data_ = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
      capacity_ = bytes.size();
    }
    size_ = bytes.size();
    if (size_ > 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  // Delivered: keeps a small buffer for the next message, and frees a large one.
  void clear() {
    size_ = 0;
    if (capacity_ <= kKeepBytes) return;
    data_.reset();
    capacity_ = 0;
  }
  std::size_t size() const { return size_; }
  // Valid until the next assign() or clear().
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  static constexpr std::size_t kKeepBytes = 1024;
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Objects that are taken and given back; all are freed with the list, given back or not. An event
// can so refer to one by a bare pointer, and nothing leaks when it is never handled. A deque,
// because its elements do not move. The list is as long as the most objects that were ever in use
// at once.
template <class T>
class FreeList {
 public:
  // As it was given back: the taker sets every field that it needs.
  T* take() {
    if (free_.empty()) return &all_.emplace_back();
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T* object) { free_.push_back(object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

}  // namespace hetsgd::sim
