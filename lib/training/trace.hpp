// --trace: what each worker did when, as ranges on the run's clock, and the same ranges for NVIDIA's
// profilers where this binary knows NVTX.
//
// A TracedNode stands between an algorithm and the node of whatever cluster it runs on and notes
// each of its blocking calls: computations, messages, collectives, calls of services, evaluations
// (which take none of the clock). Without --trace nothing stands there.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/node.hpp"

namespace hetsgd {

struct TraceRange {
  const char* category;  // compute, communicate, service, off_clock: static text
  std::string name;      // "step", "all_reduce", "service server", ...
  Seconds begin{0}, end{0};
};

// The ranges of one process of a worker, in the order of their ends. Filled by that process alone.
struct TraceLine {
  int rank = 0;
  std::string name;  // "worker 1", "worker 1 mixer"
  std::vector<TraceRange> ranges;
};

class Trace {
 public:
  // From any thread; the line stays where it is.
  TraceLine& line(int rank, const std::string& companion);
  // After the run: by rank, the worker itself before its companions.
  std::vector<const TraceLine*> lines() const;

 private:
  mutable std::mutex mutex_;
  std::deque<TraceLine> lines_;
};

// Whether ranges also go to NVTX.
bool trace_has_nvtx();

// Calls fn with a node that notes what it is asked for in a line of `trace`, and passes it on.
void with_traced_node(Node& node, Trace& trace, const std::function<void(Node&)>& fn);

}  // namespace hetsgd
