// --trace: what each worker did when, as ranges on the run's clock, and the same ranges for
// NVIDIA's profilers where this binary knows NVTX.
//
// The ranges are made by a TracedEndpoint (traced_endpoint.hpp).
//
// A call that goes on while its caller computes (Comm::start, ServiceClient::post) lies beside what
// its process does: in a second line, "started calls", made when the first such call is complete.
// The process's own line has the wait for it alone.
//
// Calls of several ranks belong together by what they say of themselves (CallPlace): which call of
// which group it is, or which message. From that match() finds out which worker waited for which.
// The training clocks of all ranks tell the same time, so it needs no cluster's help.
//
// A record for `hetsgd replay` (--record-timeline) has in addition the causes of a call that lie in
// other processes: the waits for monitors, the requests as their service served them, and the
// moments at which processes and calls were started (TraceDetail::causes).
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/endpoint.hpp"

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
  // sim: its exact time and the part for which it had the device; 0 in real time.
  Seconds charged{0}, busy{0};
  CallPlace place{};
  // The moment that the end of the range depends on beside its begin. A wait for a started or
  // posted call: where that was started. A wait in a monitor: the notification that ended it. A
  // served request: `time` is that of its answer, and `calls` the place in the service's line of
  // the request during which it was answered.
  CallPoint cause{};

  static constexpr auto members() {
    using R = TraceRange;
    return std::tuple(&R::category, &R::name, &R::begin, &R::end, &R::wait, &R::delay, &R::steps,
                      &R::bytes, &R::samples, &R::work, &R::charged, &R::busy, &R::place,
                      &R::cause);
  }
};

// How the name of a line of started calls ends.
inline constexpr std::string_view kStartedCalls = "started calls";

// The ranges of one process of a worker, in the order of their ends. Filled by that process alone,
// without a lock; a call that a failing run cuts short ends where it was unwound.
struct TraceLine {
  int rank = 0;
  std::string name;               // "worker 1", "worker 1 mixer"
  bool main = false;              // the worker's own
  int number = 0;                 // of the worker's lines, in the order in which they were begun
  CallPoint parent{};             // where the worker has started this background task
  std::deque<TraceRange> ranges;  // never moved: a range is large, and a run waits for its record

  static constexpr auto members() {
    using L = TraceLine;
    return std::tuple(&L::rank, &L::name, &L::main, &L::number, &L::parent, &L::ranges);
  }
};

// Time that a worker was blocked for another one, or for a service.
struct WaitedFor {
  int rank = -1;          // -1: a service
  std::string service{};  // its name
  Seconds wait{0};
};

// How many calls a rank has made on a group.
struct GroupCalls {
  std::uint64_t collectives = 0, started = 0;
};

// How much a trace notes.
enum class TraceDetail {
  calls,   // what processes do, for people
  causes,  // also waits for monitors and what services do, so that the run can be timed again
};

// The lines of this process's workers, and, once they were added, of others. It outlives the run.
class Trace {
 public:
  explicit Trace(TraceDetail detail = TraceDetail::calls) : detail_(detail) {}

  bool has_causes() const { return detail_ == TraceDetail::causes; }
  // From any thread; the line stays where it is. `parent`: where it was started; none for the
  // worker's own.
  TraceLine& line(int rank, const std::string& background_task, const CallPoint& parent = {});
  // The line of the requests that the service has handled, in that order. From any thread; it stays
  // where it is. The service alone fills it, one request after the other.
  TraceLine& service(const std::string& name);
  // The number of requests that a rank has sent to a service so far. From any thread; it stays
  // where it is.
  std::atomic<std::uint64_t>& requests(int rank, const std::string& service);
  // A line of another process.
  void add(TraceLine line);
  // The counts of a worker on the group of all workers, which its processes share. From any thread;
  // they stay where they are.
  GroupCalls& world_calls(int rank);
  // After the run: by rank, the worker itself before its background tasks.
  std::vector<const TraceLine*> lines() const;
  // The services that ran in this process, by name.
  std::vector<const TraceLine*> services() const;

 private:
  const TraceDetail detail_;
  mutable std::mutex mutex_;  // guards all below
  std::deque<TraceLine> lines_;
  std::map<std::string, TraceLine> services_;
  std::map<std::pair<int, std::string>, std::atomic<std::uint64_t>> requests_;
  std::map<int, GroupCalls> world_calls_;
};

// Which ranges of a trace belong together, and so which worker waited for which.
//
// A collective: all wait for the rank that came last. A rank that was blocked in it from b to e,
// while the last one came at l, waited for that rank for min(max(l - b, 0), e - b); the rest is
// transfer.
//
//   rank 0  |==== step ====|--- waits for 2 ---|  all_reduce  |
//   rank 1  |======= step ======|- waits for 2 -|             |
//   rank 2  |============= step =============| |              |
//                                             l
//
// A message: its receiver waits for its sender; the n-th message of a pair with one tag is the n-th
// that was received. A sendrecv waits for its peer, a call of a service for that service. A message
// of a background task of the same worker is the answer of a service, which has the task's name:
// the "tables" of this worker's own shard.
//
// A worker waits for the same as its main process. Where that waits for its own background tasks,
// the worker waits for the same as these. Where one of its processes computes or communicates it
// does not wait (cluster/worker_account.hpp).

// A place in Trace::lines().
struct RangeIndex {
  std::size_t line = 0, range = 0;
  auto operator<=>(const RangeIndex&) const = default;
};

struct TraceMatches {
  // For each range that waited for a worker: which one, and how long.
  std::map<RangeIndex, WaitedFor> waits;
  std::vector<std::pair<RangeIndex, RangeIndex>> messages;   // sent, received
  std::vector<std::pair<RangeIndex, RangeIndex>> exchanges;  // the two sides of a sendrecv
  // The members of each collective.
  std::vector<std::vector<RangeIndex>> collectives;
};

// Matches the lines of all workers. Calls whose other side is not there (of a run that was cut
// short, or of a process whose lines were not added) have no match.
TraceMatches match(const std::vector<const TraceLine*>& lines);

// For each worker, by rank: the workers and services that it waited for, the longest first.
// account_waits: the waiting time in the workers' accounts (TimeBreakdown::wait), by rank.
std::vector<std::vector<WaitedFor>> waited_for(const Trace& trace,
                                               std::span<const Seconds> account_waits);

}  // namespace hetsgd
