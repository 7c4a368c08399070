// A number that a device may still be working on. Free of fmt: CUDA sources include this.
#pragma once

#include <cstdint>

namespace hetsgd {

// A sum that its device may still be working on. Reading it (as a double) waits for it, but not for
// what the device was given after it. Good until the device's next call that returns one.
class DeferredSum {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    // The sum of the `call`-th call. Checked: that was the last one.
    virtual double await(std::uint64_t call) const = 0;
  };
  DeferredSum(double value) : value_(value) {}  // NOLINT: a sum that is there already
  DeferredSum(const Source& source, std::uint64_t call) : source_(&source), call_(call) {}
  operator double() const { return source_ ? source_->await(call_) : value_; }  // NOLINT

 private:
  const Source* source_ = nullptr;
  std::uint64_t call_ = 0;
  double value_ = 0;
};

}  // namespace hetsgd
