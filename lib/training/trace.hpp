// --trace: what each worker did when, as ranges on the run's clock, and the same ranges for
// NVIDIA's profilers where this binary knows NVTX.
//
// A TracedEndpoint stands between an algorithm and the endpoint of whatever cluster it runs on and
// notes each of its blocking calls: computations, messages, collectives, calls of services,
// evaluations (which take none of the clock). Without --trace nothing stands there.
//
//   Worker ── TracedEndpoint ── the cluster's Endpoint
//                  └ range [begin, end] ──> TraceLine of this process ──> Trace ──> file (result/)
//
// A call that goes on while its caller computes (Comm::start, ServiceClient::post) lies beside what
// its process does: in a second line, "started calls", made when the first such call is complete.
// The process's own line has the wait for it alone.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/endpoint.hpp"

namespace hetsgd {

// On the training clock, as the endpoint tells it; begin <= end.
struct TraceRange {
  const char* category;  // compute, communicate, service, off_clock: static text
  std::string name;      // "step", "all_reduce", "service server", ...
  Seconds begin{0}, end{0};
};

// The ranges of one process of a worker, in the order of their ends. Filled by that process alone,
// without a lock; a call that a failing run cuts short ends where it was unwound.
struct TraceLine {
  int rank = 0;
  std::string name;  // "worker 1", "worker 1 mixer"
  std::vector<TraceRange> ranges;
};

// The lines of this process's workers. It outlives the run.
class Trace {
 public:
  // From any thread; the line stays where it is.
  TraceLine& line(int rank, const std::string& background_task);
  // After the run: by rank, the worker itself before its background tasks.
  std::vector<const TraceLine*> lines() const;

 private:
  mutable std::mutex mutex_;
  std::deque<TraceLine> lines_;
};

// Whether ranges also go to NVTX.
bool trace_has_nvtx();

// Calls fn with an endpoint that notes what it is asked for in a line of `trace`, and passes it on.
// Background tasks that fn starts get a line of their own. The clock and the results are those of a
// run without trace.
void with_traced_endpoint(Endpoint& endpoint, Trace& trace,
                          const std::function<void(Endpoint&)>& fn);

}  // namespace hetsgd
