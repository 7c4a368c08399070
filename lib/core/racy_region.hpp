// Marks intended races for ThreadSanitizer. A race is suppressed by the functions on the stacks of
// its two threads (tests/tsan.supp). The stack of the earlier access may be lost if it lies too far
// back, and a helper thread that computes for another one lacks its caller's functions. Therefore
// the functions that race mark themselves, and work that they hand to helpers carries the mark
// along. Without ThreadSanitizer all of this is empty.
#pragma once

#include "core/non_copyable.hpp"

#if defined(__SANITIZE_THREAD__)
#define HETSGD_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HETSGD_TSAN 1
#endif
#endif

#ifdef HETSGD_TSAN
extern "C" {
void __tsan_func_entry(void* call_pc);
void __tsan_func_exit();
}
#endif

namespace hetsgd {

#ifdef HETSGD_TSAN

// While one lives, work that its thread starts on helpers counts as work of the function that made
// it.
class RacyRegion : NonCopyable {
 public:
  // The place in that function, or null. Another thread passes it to `OnBehalfOf`.
  using Mark = void*;
  static Mark current() { return current_; }

  [[gnu::noinline]] RacyRegion() : before_(current_) { current_ = __builtin_return_address(0); }
  ~RacyRegion() { current_ = before_; }

 private:
  inline static thread_local Mark current_ = nullptr;
  Mark before_;
};

// While one lives, the stack of a helper shows the function that the mark stands for.
class OnBehalfOf : NonCopyable {
 public:
  explicit OnBehalfOf(RacyRegion::Mark mark) : shown_(mark != nullptr) {
    if (shown_) __tsan_func_entry(mark);
  }
  ~OnBehalfOf() {
    if (shown_) __tsan_func_exit();
  }

 private:
  const bool shown_;
};

#else

struct RacyRegion {
  struct Mark {};
  static Mark current() { return {}; }
  RacyRegion() {}  // not trivial, so that a region made only for its lifetime counts as used
};

struct OnBehalfOf {
  explicit OnBehalfOf(RacyRegion::Mark) {}
};

#endif

}  // namespace hetsgd
