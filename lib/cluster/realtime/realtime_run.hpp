// RealtimeRun: what one rank, a process of the operating system, does for a run in real time,
// whichever cluster it belongs to. It starts the threads of its workers, of their background tasks
// and of services, and gives each its cores and its device. It reports what the workers did.
//
// The life of each kind of thread:
//
//   worker           start_worker() --> pinned, device made --> await_start() --> body --> ended
//   background task  started by a worker --> its own device made, on the clock --> body --> ended
//   service          start_service() --> body, without a device --> ended, when only services are
//                                                                   left
//
// Every thread makes its own device, after it was pinned. The threads that a device starts inherit
// the pinning, and a GPU's context becomes current in the thread that uses it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/devices.hpp"
#include "cluster/realtime/world.hpp"

namespace hetsgd::realtime {

// Where a worker computes. A service and a background task have none: they may run on every core of
// the process, so that they do not take turns with one pinned worker.
struct Seat {
  DeviceSpec device;
  std::vector<int> pinned;  // its cores; empty: it is pinned to none
};

class RealtimeRun {
 protected:
  using Body = std::function<void(Process&)>;

  // options, segment: must outlive the run. cores: those of this process. at_once: how many threads
  // of this run can run at once, which is less than the cores where other ranks share them.
  RealtimeRun(const ClusterOptions& options, Segment& segment, std::vector<int> cores, int at_once)
      : options_(options), segment_(segment), cores_(std::move(cores)), world_(at_once) {}
  ~RealtimeRun() = default;

  // Starts the worker's thread, which calls `body` when the training clock runs. Called by the
  // run's owner before World::run(). In all three, an exception of the thread, set-up included,
  // aborts the run; Error(runtime) of the call itself: no thread to be had.
  void start_worker(int rank, const Seat& seat, Body body);
  // Starts a helper of the same worker, with a device of its own. It is pinned to no core. Called
  // by `parent`, or by another process of the run; `kind`: background_task or started_calls.
  Process& start_helper_on(const DeviceSpec& device, Process& parent, const std::string& name,
                           ProcessKind kind, Body body);
  // Any thread, while the run goes on.
  void start_service(const std::string& name, Body body);
  // Called by a thread that has just made its device, for what a cluster needs besides.
  virtual void prepare(Process& me) { static_cast<void>(me); }

  // The report on the workers in this process: their times, and the bytes that they and their
  // background tasks have sent. Only when all workers and background tasks have ended (World::run's
  // hook `ended`, or after it): their breakdowns are written without a lock by their own threads.
  ClusterReport local_report() const;

  const ClusterOptions& options_;
  Segment& segment_;
  const std::vector<int> cores_;
  // A derived run's members that processes use are destroyed before the world: no thread is left by
  // then, since World::run() joins them all.
  World world_;

 private:
  void set_up(Process& me, Seat seat);
};

}  // namespace hetsgd::realtime
