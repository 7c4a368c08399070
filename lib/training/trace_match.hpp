// Which ranges of a trace belong together, and so who waited for whom.
//
// A collective: all wait for the rank that came last. Whoever was blocked in it from b to e, while
// the last one came at l, waited for that rank for min(max(l - b, 0), e - b); the rest is transfer.
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
// A worker waits for whom its main process waits for, or, where that waits for its own background
// tasks, for whom these wait for. Where one of its processes computes or communicates it does not
// wait (cluster/worker_account.hpp).
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "training/record.hpp"
#include "training/trace.hpp"

namespace hetsgd {

// A place in Trace::lines().
struct RangeIndex {
  std::size_t line = 0, range = 0;
  auto operator<=>(const RangeIndex&) const = default;
};

struct TraceMatches {
  // Of each range that waited for a worker: for which, and how long.
  std::map<RangeIndex, WaitedFor> waits;
  std::vector<std::pair<RangeIndex, RangeIndex>> messages;  // sent, received
};

// Of the lines of all workers. Calls whose other side is not there (of a run that was cut short, or
// of a process whose lines were not added) have no match.
TraceMatches match(const std::vector<const TraceLine*>& lines);

// Fills WorkerRecord::waited_for of all workers, whose accounts are there already.
void note_waiting(const Trace& trace, Record& record);

}  // namespace hetsgd
