#include "cluster/realtime/training_clock.hpp"

#include <time.h>

namespace hetsgd::realtime {

namespace {

Seconds seconds_of(std::int64_t ns) { return Seconds(static_cast<double>(ns) * 1e-9); }

}  // namespace

std::int64_t TrainingClock::monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// While it stands everybody but the holder of the pause is stopped, so that no reader sees it
// between the two stores of go_on(): the holder calls go_on() itself, or has given the right to run
// back before. Nor does a reader see stop() late, since all have stopped before it.
Seconds TrainingClock::now() const {
  if (origin_ns_ == 0) return Seconds(0);
  const std::int64_t stands_since = stands_since_ns_;
  return seconds_of((stands_since ? stands_since : monotonic_ns()) - origin_ns_ - paused_ns_);
}

Seconds TrainingClock::paused() const { return seconds_of(paused_ns_); }

void TrainingClock::go_on(std::int64_t at) {
  if (!stands()) return;
  paused_ns_ += at - stands_since_ns_;
  stands_since_ns_ = 0;
}

}  // namespace hetsgd::realtime
