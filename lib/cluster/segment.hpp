// Segment: what a run of a cluster begins with if it continues an earlier one.
//
// A run that can be interrupted and resumed is a sequence of segments. Each is one call of
// Cluster::run_segment(), whose workers are fresh processes that go on from saved state:
//
//   segment 0   0 |== set-up and training =======| ends: state is saved
//   segment 1     set-up, off the clock     go_on |== training ======| ends: state is saved
//
// A segment may have only some of the run's workers: its view. Then ranks number the workers of the
// view, and Endpoint::id() is the worker's number in the run. The worker's device, speed, data and
// stragglers go by that number. A worker that is lost (Scenario::lost) ends the segment for all:
//
//   lost at t          its processes stop; messages that it has sent arrive
//   t + detect         the others know: they begin no further communication, and Segment::losing is
//                      called. Their computations, and collectives that all had come to, go on
//                      to their end. So does everything after them up to the next communication.
//   then               nobody can go on: all that waits is unwound, and run_segment() returns
//
// That is what sim does. In real time a worker looks whether it is lost when it begins a
// computation, and nowhere else. So it finishes and sends what it has begun before, its background
// tasks go on, and the others know `detect` after that look. Nothing is cut short.
//
// Under mpi no process dies. The process of a lost worker goes on to answer the others, to run the
// services that lie there, and to take part in a later segment.
//
// From the second segment on the clock stands until every worker has called Endpoint::go_on().
// Then the clock, the times and the count of steps of each worker are those of the segment before,
// and background tasks that were started until then begin.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/service.hpp"
#include "cluster/worker_account.hpp"
#include "core/archive.hpp"
#include "core/units.hpp"

namespace hetsgd {

// Where a worker has ended in the segment before: on the training clock, and its times so far.
struct WorkerStart {
  Seconds clock{0};
  TimeBreakdown spent;
};

struct Segment {
  // The workers of the view, ascending, by rank; empty: all of the run.
  std::vector<int> view = {};
  // By rank; empty: the first segment. Under mpi a process needs only the entry of its own rank. If
  // the run loses workers it also needs the latest clock, as that of any other.
  std::vector<WorkerStart> start = {};
  // sim: all workers go on at the latest of these clocks, as they always do in real time. Else each
  // goes on at its own. The time in between counts as waiting.
  bool together = true;
  // The state of services and of simulated links in this process at the end of the segment before,
  // and how the workers of that segment differ from those of this one. Null: there is none, or the
  // same.
  const SavedFields* from = nullptr;
  const OtherWorkers* other = nullptr;
  // The same at the end of this segment.
  SavedFields cluster = {};
  // Asked when all workers have returned: whether the run goes on, so that the state is saved into
  // `cluster`. Null: no.
  std::function<bool()> is_followed = nullptr;

  // Called when workers are known to be lost: asynchronous workers that do not wait for the lost
  // ones can leave their loops.
  std::function<void()> losing = nullptr;
  // Filled by a segment that ended because of a loss: when each lost worker, by its number in the
  // run, was lost, and when the others knew.
  std::map<int, Seconds> lost = {};
  Seconds detected{0};

  bool goes_on() const { return !start.empty(); }
  int id(int rank) const { return view.empty() ? rank : view[static_cast<std::size_t>(rank)]; }
  // Calls save(cluster), if the run goes on.
  template <class Save>
  void end(Save save) {
    if (is_followed && is_followed()) save(cluster);
  }
};

class Endpoint;

// Background tasks of a process whose clock still stands.
class HeldTasks {
 public:
  using Body = std::function<void(Endpoint&)>;

  void hold(std::string name, Body body) { tasks_.emplace_back(std::move(name), std::move(body)); }
  template <class Start>
  void start_all(Start start) {
    for (auto& [name, body] : std::exchange(tasks_, {})) start(std::move(name), std::move(body));
  }

 private:
  std::vector<std::pair<std::string, Body>> tasks_;
};

// Loads the fields of a service that the segment before has had; else the service begins afresh.
void load_service(Segment& segment, const std::string& name, ServiceHandler& handler);
void save_service(SavedFields& fields, const std::string& name, ServiceHandler& handler);

}  // namespace hetsgd
