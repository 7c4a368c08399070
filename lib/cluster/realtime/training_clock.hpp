// TrainingClock: the time of a run in real time. It is the monotonic time since the start of the
// run, without the pauses.
//
//             start(at)          stop(at)           go_on(at)
//   not begun ---------> runs <-----------> stands           now() = instant - origin - paused;
//   now() = 0                                                while it stands the instant is `at`
//
// A later segment of a run sets it to the end of the segment before (set_next).
//
// The instants come from the caller, because rank 0 may have chosen them for all ranks. A clock may
// stop or go on as of an instant that lies somewhat before or after the call.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/units.hpp"

namespace hetsgd::realtime {

class TrainingClock {
 public:
  // CLOCK_MONOTONIC of this host, in ns. All instants below are of it, and are not 0.
  static std::int64_t monotonic_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  }

  // Any thread. 0 before the start.
  // While it stands everybody but the holder of the pause is stopped, so no reader sees it between
  // the two stores of go_on(). The holder calls go_on() itself, or has given the right to run back
  // before. Nor does a reader see stop() late, since all have stopped before it.
  Seconds now() const {
    if (!begun()) return Seconds(0);
    const std::int64_t stands_since = stands_since_ns_;
    return seconds_of((stands_since ? stands_since : monotonic_ns()) - origin_ns_ - paused_ns_);
  }
  // Total length of the pauses.
  Seconds paused() const { return seconds_of(paused_ns_); }

  // The rest by one thread at a time (the world's mutex is held).
  void start(std::int64_t at) { origin_ns_ = at; }
  bool begun() const { return origin_ns_ != 0; }
  bool stands() const { return stands_since_ns_ != 0; }
  void stop(std::int64_t at) { stands_since_ns_ = at; }
  // Does nothing if the clock runs.
  void go_on(std::int64_t at) {
    if (!stands()) return;
    paused_ns_ += at - stands_since_ns_;
    if (next_) {
      const auto value = std::chrono::duration_cast<std::chrono::nanoseconds>(*next_);
      origin_ns_ = at - paused_ns_ - value.count();
      next_.reset();
    }
    stands_since_ns_ = 0;
  }
  // The time that the clock tells when it goes on next.
  void set_next(Seconds time) { next_ = time; }

 private:
  static Seconds seconds_of(std::int64_t ns) { return Seconds(static_cast<double>(ns) * 1e-9); }

  // Atomics, because now() is called without the mutex. The three stores are not one change, but
  // every thread that could see them in between is stopped (now()).
  std::atomic<std::int64_t> origin_ns_ = 0;
  std::atomic<std::int64_t> paused_ns_ = 0;
  std::atomic<std::int64_t> stands_since_ns_ = 0;  // 0: it runs
  std::optional<Seconds> next_;
};

}  // namespace hetsgd::realtime
