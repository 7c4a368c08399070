// Trace: the calls of a run, with what each worker did when, as ranges on the run's clock. The same
// ranges go to NVIDIA's profilers where this binary knows NVTX. `--trace` and `--record-timeline`
// record calls:
//
//   calls --noted_calls.cpp--> CallLog of a line --recorded(), lines()--> trace_json, for --trace
//                                                                         (result/trace.cpp)
//                                                                     --> write_timeline, for
//                                                                         --record-timeline
//                                                                         (training/timeline/)
//
// Under mpi RankClient::gather brings the lines of all ranks to rank 0 first.
//
// A call that goes on while its caller computes (Comm::start, ServiceClient::post) lies beside the
// work of its process, in a second line, "started calls". The line is made when the first such call
// is complete. The process's own line has the wait for it alone.
//
// Calls of several ranks belong together by what they say of themselves (call_log.hpp): which call
// of which group it is, or which message. From that match() finds out which worker each worker
// waited for. The training clocks of all ranks tell the same time, so it needs no cluster's help.
//
// While the run goes on its calls lie in compact form (call_log.hpp), so that noting one costs a
// worker little and the memory of a long run has a bound. lines() has them as ranges.
//
// A timeline for `hetsgd replay` (--record-timeline) also has the causes of a call that lie in
// other processes: the waits for monitors, the requests as their service served them, and the
// starts of processes and calls (TraceDetail::causes).
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

#include "cluster/trace/call_log.hpp"

namespace hetsgd {

// How the name of a line of started calls ends.
inline constexpr std::string_view kStartedCalls = "started calls";

// One process of a worker, or a service.
struct TracedName {
  int rank = 0;
  std::string name;    // "worker 1", "worker 1 mixer"
  bool main = false;   // the worker's own
  int number = 0;      // of the worker's lines, in the order of their beginnings
  CallPoint parent{};  // where the worker has started this background task

  static constexpr auto members() {
    using N = TracedName;
    return std::tuple(&N::rank, &N::name, &N::main, &N::number, &N::parent);
  }
};

// A process as it is recorded. Filled by that process alone, without a lock, in the order of the
// ends of its calls; a call that a failing run cuts short ends where it was unwound.
struct RecordedLine : TracedName {
  RecordedLine(TracedName line, CallMemory& memory) : TracedName(std::move(line)), calls(memory) {}
  CallLog calls;
  bool has_ended = false;  // with the segment of its process
};

// The ranges of one process, in the order of their ends.
struct TraceLine : TracedName {
  std::deque<RecordedCall> ranges{};  // never moved: a range is large
};

// Time that a worker was blocked for another one, or for a service.
struct WaitedFor {
  int rank = -1;          // -1: a service
  std::string service{};  // its name
  Seconds wait{0};
};

// How much a trace notes.
enum class TraceDetail {
  calls,   // what processes do, for people
  causes,  // also waits for monitors and what services do, so that the run can be timed again
};

// The lines of this process's workers, and, once they were added, of others. It outlives the run.
class Trace {
 public:
  explicit Trace(TraceDetail detail = TraceDetail::calls, CallMemoryOptions memory = {})
      : detail_(detail), memory_(std::move(memory)) {}

  bool has_causes() const { return detail_ == TraceDetail::causes; }
  // All processes have ended, and those of a segment of the run come (cluster/segment.hpp).
  // goes_on: a later one, whose workers set up until they call went_on().
  void begin_segment(bool goes_on);
  void went_on() { is_set_up_ = true; }
  // Calls of a set-up are not on the clock.
  bool is_set_up() const { return is_set_up_; }
  // From any thread; the line stays where it is. `parent`: where it was started; none for the
  // worker's own. A process of this name that has ended with its segment goes on in its line.
  RecordedLine& line(int rank, const std::string& background_task, const CallPoint& parent = {});
  // The line of the requests that the service has handled, in that order. From any thread; it stays
  // where it is. The service alone fills it, one request after the other.
  RecordedLine& service(const std::string& name);
  // How many calls of a kind the processes of a rank have made so far: requests to "service NAME",
  // collectives of a "group NAME", those that were "started GROUP". From any thread; it stays where
  // it is.
  std::atomic<std::uint64_t>& made(int rank, const std::string& kind);
  // The requests that a service has handled so far, by rank. The service alone uses it; it stays
  // where it is.
  std::map<int, std::uint64_t>& handled(const std::string& service);
  // A new line for the calls of another process. It stays where it is.
  RecordedLine& add(TracedName name);
  // After the run: by rank, the worker itself before its background tasks.
  std::vector<const RecordedLine*> recorded() const;
  // The services that ran in this process, by name.
  std::vector<const RecordedLine*> recorded_services() const;
  // The same with all of their ranges, which are made at the first call and take some 400 bytes
  // each.
  std::vector<const TraceLine*> lines() const;
  std::vector<const TraceLine*> services() const;
  // Whether all calls are in memory, so that lines() will find room.
  bool is_in_memory() const { return !memory_.has_file(); }

 private:
  const TraceDetail detail_;
  CallMemory memory_;
  std::atomic<bool> is_set_up_ = true;
  mutable std::mutex mutex_;  // guards all below
  std::deque<RecordedLine> lines_;
  std::map<std::string, RecordedLine> services_;
  mutable std::deque<TraceLine> decoded_, decoded_services_;
  std::map<std::pair<int, std::string>, std::atomic<std::uint64_t>> made_;
  std::map<std::string, std::map<int, std::uint64_t>> handled_;
};

// Which ranges of a trace belong together. This says which worker each worker waited for.
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
