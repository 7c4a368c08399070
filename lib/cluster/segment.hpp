// Segment: what a run of a cluster begins with if it continues an earlier one.
//
// A run that can be interrupted and resumed is a sequence of segments. Each is one call of
// Cluster::run_segment(), whose workers are fresh processes that go on from saved state:
//
//   segment 0   0 |== set-up and training =======| ends: state is saved
//   segment 1     set-up, off the clock     go_on |== training ======| ends: state is saved
//
// From the second segment on the clock stands until every worker has called Endpoint::go_on().
// Then the clock, the times and the count of steps of each worker are those of the segment before,
// and background tasks that were started until then begin.
#pragma once

#include <functional>
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
  // By rank; empty: the first segment. Under mpi a process needs only the entry of its own rank.
  std::vector<WorkerStart> start = {};
  // sim: all workers go on at the latest of these clocks, as they always do in real time. Else each
  // goes on at its own. The time in between counts as waiting.
  bool together = true;
  // The state of services and of simulated links in this process: loaded at the beginning of the
  // segment.
  SavedFields cluster = {};
  // Asked when all workers have returned: whether the run goes on, so that the state is saved into
  // `cluster`. Null: no.
  std::function<bool()> is_followed = nullptr;

  bool goes_on() const { return !start.empty(); }
  // Calls save(fields) and replaces `cluster`, if the run goes on.
  template <class Save>
  void end(Save save) {
    cluster.clear();
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
