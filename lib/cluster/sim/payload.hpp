// Bytes in flight, and a free list of the objects that carry them: small messages allocate nothing
// once the run is warm; large buffers are freed as soon as they are delivered.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace hetsgd::sim {

class Payload {
 public:
  void assign(std::span<const std::byte> bytes) {
    if (bytes.size() > capacity_) {
      data_ = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
      capacity_ = bytes.size();
    }
    size_ = bytes.size();
    if (size_ > 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  void clear() {
    size_ = 0;
    if (capacity_ <= kKeepBytes) return;
    data_.reset();
    capacity_ = 0;
  }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  static constexpr std::size_t kKeepBytes = 1024;
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Objects that are taken and given back; all are freed with the list.
template <class T>
class FreeList {
 public:
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
