// Base of classes that others refer to, or that own a resource with one owner: they are neither
// copied nor moved.
#pragma once

namespace hetsgd {

class NonCopyable {
 public:
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;

 protected:
  NonCopyable() = default;
  ~NonCopyable() = default;
};

}  // namespace hetsgd
