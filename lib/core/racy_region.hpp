// Races on purpose, as ThreadSanitizer sees them. A race is suppressed by the functions on the
// stacks of its two threads (tests/tsan.supp); that of the earlier access is lost where it lies too
// far back, and a helper thread that computes for another one does not have its caller's functions
// on its own. So the functions that race say so, and what they hand to helpers carries it along.
// Without ThreadSanitizer all of this is empty.
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

// While one lives, what its thread starts on helpers is done for the function that made it.
class RacyRegion : NonCopyable {
 public:
  // The place in that function, or null; for `OnBehalfOf` on another thread.
  using Mark = void*;
  static Mark current() { return current_; }

  [[gnu::noinline]] RacyRegion() : before_(current_) { current_ = __builtin_return_address(0); }
  ~RacyRegion() { current_ = before_; }

 private:
  inline static thread_local Mark current_ = nullptr;
  Mark before_;
};

// While one lives, the stack of a helper shows the function that the mark is of.
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
  RacyRegion() {}  // not trivial, so that one which is there for its life alone counts as used
};

struct OnBehalfOf {
  explicit OnBehalfOf(RacyRegion::Mark) {}
};

#endif

}  // namespace hetsgd
