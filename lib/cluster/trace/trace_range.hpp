// The notes of a trace on one call of one process, and how calls of several processes belong
// together.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "core/units.hpp"

namespace hetsgd {

// The relation of a range to ranges of other ranks.
enum class CallKind : std::uint8_t {
  none,
  collective,  // blocking: the group's `number`-th of this rank, splits included
  started,     // the same of those that are started; the range is the wait for it
  send,
  receive,
  sendrecv,
  service,
  monitor,  // a wait in a Monitor, or for its lock
  served,   // a request, as its service sees it
};

// Which call it is. Equal on all ranks whose ranges belong together, but for peer.
struct CallPlace {
  CallKind kind = CallKind::none;
  // "": all workers. A part has its group's name and "/NUMBER:COLOUR" of the split that made it.
  std::string group{};
  std::uint64_t number = 0;  // collectives; requests: of this rank to the service
  int rank = 0;              // rank of this process in the group
  int peer = -1;             // messages: rank in the group
  int tag = 0;
  bool is_split = false;
  int color = 0, key = 0;  // arguments of a split
  // Started and posted calls, in the range of the wait for them: when this rank's part could begin,
  // and when it was complete.
  Seconds since{0}, until{0};

  static constexpr auto members() {
    using C = CallPlace;
    return std::tuple(&C::kind, &C::group, &C::number, &C::rank, &C::peer, &C::tag, &C::is_split,
                      &C::color, &C::key, &C::since, &C::until);
  }
};

// A moment in the life of a process: after so many of its calls.
struct CallPoint {
  int rank = -1;            // of the process's worker; -1: no such moment
  int line = 0;             // TraceLine::number of the process
  std::uint64_t calls = 0;  // ranges of its line that had ended
  Seconds time{0};

  static constexpr auto members() {
    using P = CallPoint;
    return std::tuple(&P::rank, &P::line, &P::calls, &P::time);
  }
};

// A range on the training clock, as the endpoint tells it; begin <= end.
struct TraceRange {
  std::string category;  // compute, communicate, service, off_clock
  std::string name;      // "step", "all_reduce", "service server", ...
  Seconds begin{0}, end{0};
  Seconds wait{0};            // part blocked for others; the rest of a message is transfer
  Seconds delay{0};           // delay of a computation at its end: stragglers and --speed
  std::uint64_t steps = 0;    // steps that the process had begun by its end
  std::uint64_t bytes = 0;    // bytes of the caller's data, both ways
  std::uint64_t samples = 0;  // batch size of a step
  Work work{};                // of a computation, as stated to the endpoint
  // sim: its exact time and how long it had the device; 0 in real time.
  Seconds charged{0}, busy{0};
  CallPlace place{};
  // The moment that the end of the range depends on beside its begin. A wait for a started or
  // posted call: where that was started. A wait in a monitor: the notification that ended it. A
  // served request: `time` is that of its answer, and `calls` the place, in the service's line, of
  // the request that answered it.
  CallPoint cause{};

  static constexpr auto members() {
    using R = TraceRange;
    return std::tuple(&R::category, &R::name, &R::begin, &R::end, &R::wait, &R::delay, &R::steps,
                      &R::bytes, &R::samples, &R::work, &R::charged, &R::busy, &R::place,
                      &R::cause);
  }
};

}  // namespace hetsgd
