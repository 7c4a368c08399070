// Times a recorded run again without its mathematics: the calls and their order stay, their
// durations may change (`hetsgd retime`, which `hetsgd replay` asks).
//
// Every call has moments: its begin, its end, and for some kinds more (arrival at a service,
// completion of a started call). A moment comes a fixed time x after the latest moment that it
// depends on. x is taken from the record, so an unmodified record gives its own times:
//
//   moment            depends on
//   begin             end of the process's call before; the start of the process    x is the gap
//   end of compute    begin                                                  x is own + delay
//   end of collective begin of all its members (the last arrival)
//   end of receive    begin; end of the matching send
//   end of sendrecv   begin on both sides
//   served            arrival of the request; end of the request served before it
//   end of a request  the answer: given while the answering request is served
//   end of a wait     begin; completion of the started call, or the notification of the monitor
//
// A service is serial, and serves by replayed arrival. When a request arrives is not recorded where
// it was queued: it then takes the shortest way that a request of that worker had.
//
// A member of a collective that ended before the last one came (a root that only sends) depends on
// its own begin alone. A call whose other side is not in the record keeps its duration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cluster/trace/trace.hpp"
#include "core/units.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {

// One value per call: [process of the timeline][range of its line].
using PerCall = std::vector<std::vector<double>>;

struct CallMoments {
  double begin_s = 0, end_s = 0;
};

struct RetimedRun {
  Seconds total{0};  // end of the last call
  double gap_share =
      0;  // share of the longest path that lies between calls, where nothing is known
  std::vector<std::vector<CallMoments>> calls;  // as PerCall
};

// Refers to the timeline, which must outlive it.
class Retiming {
 public:
  // Throws Error(data) if calls of the record wait for each other in a circle, or if workers were
  // lost.
  explicit Retiming(const Timeline& timeline);

  const Timeline& timeline() const { return timeline_; }
  // The part of each call's time that is its own. Computation: own + delay, without waits for the
  // device. Collective: the time since the last arrival. Message: since it was sent or expected.
  // Request: since its answer. Wait in a monitor: 0. Seconds, may be negative.
  const PerCall& own() const { return own_; }
  // The number of members of a collective; 1 for other calls.
  const std::vector<std::vector<int>>& members() const { return members_; }
  // Calls that begin before a moment that they depend on, by more than the resolution of the clock:
  // errors of the clocks' alignment.
  std::uint64_t negative_gaps() const { return negative_gaps_; }

  // The run with these times in place of own(). Without calls, only its total and its gaps.
  RetimedRun run(const PerCall& own, bool with_calls = true) const;

 private:
  using NodeIndex = std::uint32_t;
  static constexpr NodeIndex kNone = UINT32_MAX;
  // A moment of the run.
  struct Node {
    double time = 0;           // recorded
    double latest = 0;         // recorded time of the latest moment that it depends on
    bool is_gap = false;       // a begin, or a moment between two calls
    NodeIndex served = kNone;  // of a request's arrival: the end of its handling
    int service = -1;          // of an arrival
  };
  struct CallNodes {
    NodeIndex begin = kNone, end = kNone;
    NodeIndex own = kNone;  // the moment that own() comes before
  };
  // Which nodes belong to a node: those of node n are all[first[n]] to all[first[n + 1]].
  struct Links {
    std::vector<std::size_t> first;
    std::vector<NodeIndex> all;
  };
  class Build;
  class Run;

  static Links links(std::size_t nodes, const std::vector<std::pair<NodeIndex, NodeIndex>>& pairs);

  const Timeline& timeline_;
  std::vector<Node> nodes_;
  Links causes_, effects_;  // the nodes that a node depends on, and those that depend on it
  std::vector<std::vector<CallNodes>> calls_;
  PerCall own_;
  std::vector<std::vector<int>> members_;
  std::uint64_t negative_gaps_ = 0;
};

}  // namespace hetsgd
