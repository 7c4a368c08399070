#include "cluster/realtime/realtime_run.hpp"

#include <algorithm>

#include "cluster/blocking.hpp"

namespace hetsgd::realtime {

// Pins the calling thread and makes its device, whose own threads inherit the pinning.
void RealtimeRun::set_up(Process& me, Seat seat) {
  // If the system refuses, the worker runs unpinned, and the report says so.
  if (!seat.pinned.empty() && !pin_to(seat.pinned)) seat.pinned.clear();
  // A thread starts with the mask of its maker, which may be a pinned worker.
  if (seat.pinned.empty()) pin_to(cores_);
  me.device = make_device(seat.device, options_.precision, options_.convolution_library);
  me.device_text = device_text(seat.device, seat.pinned);
  me.pinned = std::move(seat.pinned);
  prepare(me);
}

void RealtimeRun::start_worker(int rank, const Seat& seat, Body body) {
  auto process = std::make_unique<Process>();
  process->name = worker_name(rank);
  process->rank = rank;
  // Devices are made before the clock runs, all of them at once: each by its own thread, and what
  // that takes is no time of training.
  world_.start(std::move(process), [this, seat, body = std::move(body)](Process& me) {
    set_up(me, seat);
    world_.await_start();
    body(me);
    if (me.account) me.account->close();
  });
}

// A background task starts in the middle of a run, so there is no await_start(). The parent is set
// before the thread exists: from then on an unwound parent waits for this process.
Process& RealtimeRun::start_helper_on(const DeviceSpec& device, Process& parent,
                                      const std::string& name, ProcessKind kind, Body body) {
  auto process = std::make_unique<Process>();
  process->name = background_task_name(name, parent.rank);
  process->kind = kind;
  process->rank = parent.rank;
  process->parent = &parent;
  if (kind == ProcessKind::background_task) {
    if (!parent.account) parent.account = std::make_shared<WorkerAccount>(parent.breakdown);
    process->account = parent.account;
  }
  return world_.start(std::move(process), [this, device, body = std::move(body)](Process& me) {
    set_up(me, {device, {}});
    body(me);
  });
}

// A service starts with the mask of the worker that happens to open it first. It would share that
// worker's cores for the whole run: hence pin_to(cores_).
void RealtimeRun::start_service(const std::string& name, Body body) {
  auto process = std::make_unique<Process>();
  process->name = service_name(name);
  process->kind = ProcessKind::service;
  world_.start(std::move(process), [this, body = std::move(body)](Process& me) {
    pin_to(cores_);
    body(me);
  });
}

// The run ends when its last worker or background task does; services are ended by that.
// Process::since of a process that has ended is the instant of its end, on the training clock.
ClusterReport RealtimeRun::local_report() const {
  ClusterReport report;
  for (const auto& process : world_.processes()) {
    if (!keeps_run(process->kind)) continue;  // ends after the run
    report.elapsed = std::max(report.elapsed, process->since);
    if (process->kind != ProcessKind::worker) continue;
    report.workers.push_back({.rank = process->rank,
                              .device = process->device_text,
                              .breakdown = account_of(*process),
                              .ended = process->since,
                              .cores = process->pinned});
  }
  // Bytes that a background task sends count as its worker's. Its times are in the account already.
  for (const auto& process : world_.processes()) {
    if (process->kind == ProcessKind::worker || process->kind == ProcessKind::service) continue;
    const auto worker = std::ranges::find(report.workers, process->rank, &WorkerReport::rank);
    worker->breakdown.add_traffic(process->breakdown);
  }
  for (WorkerReport& worker : report.workers) worker.rank = segment_.id(worker.rank);
  report.paused = world_.paused();
  return report;
}

}  // namespace hetsgd::realtime
