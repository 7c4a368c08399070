// WorkerAccount: the times of a worker that has background tasks, as one account of all its
// processes. At each instant of the main process's life the worker
//
//   computes       if one of its processes computes,
//   communicates   if none computes and one transfers bytes,
//   waits          otherwise.
//
//   main process      |== compute ==|-- waits --------------------|== compute ==|
//   background task   |- waits -|=== all_reduce ===|-- waits -----|
//   the account       |== compute ==|= communicate =|-- wait -----|== compute ==|
//
// A worker without background tasks needs none: there the main process's breakdown is the account.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "core/interval_set.hpp"
#include "core/units.hpp"

namespace hetsgd {

// Where a worker's time and bytes went. Filled by the cluster, read by training/ for the result.
//
//   run   |== compute ==|communicate|-- wait --|== compute ==| ... | idle rest |
//          with the delays of the straggler scenario and of --speed
//
// Every process has one. Only the process that it belongs to, or the cluster for it, writes to it,
// so nothing here is locked. A result shows one account per worker, with its background tasks:
// their bytes are the worker's (add_traffic, or at once in sim). Their computing and communicating
// count where the main process would wait (worker_account.hpp).

// Content of a message: parameters or gradients of the replicated model; rows of sharded tables, or
// sums of rows' gradients (`rows`), and the ids of rows (`ids`). Under --charge all but control are
// charged at full size, by factors of their own (ClusterOptions). `input` is traffic between
// machines that only prepare samples: in sim it takes latencies and no bytes, since such machines
// have links of their own.
enum class Traffic : int {
  parameters = 0,
  gradients = 1,
  control = 2,
  rows = 3,
  ids = 4,
  input = 5
};
inline constexpr std::array<std::string_view, 6> kTrafficNames = {
    "parameters", "gradients", "control", "rows", "ids", "input"};
using TrafficBytes = std::array<std::uint64_t, kTrafficNames.size()>;  // by Traffic

// How buffers in GPU memory travelled: NCCL, straight between GPUs of one process (ring and tree),
// an MPI library that takes pointers to GPU memory, through host memory.
enum class GpuPath : int { nccl = 0, peers = 1, mpi = 2, host = 3 };
inline constexpr std::array<std::string_view, 4> kGpuPathNames = {"nccl", "peers", "mpi", "host"};

// Times on the training clock. In a worker's account compute, communicate, wait and the idle rest
// add up to the run. The delays are parts of compute and not added again. Delays and steps are
// those of the main process.
struct TimeBreakdown {
  Seconds compute{0};      // gradients, steps and vector operations, straggler delays included
  Seconds communicate{0};  // bytes on the wire: transfer of messages and collectives
  Seconds wait{0};         // blocked for somebody else: late peers, a deferred reply, a queue
  Seconds delay_requested{
      0};  // what the straggler scenario and --speed asked for on top of the compute
  Seconds delay_achieved{0};  // what was measured (threads, mpi); equals the request in sim
  // sim: the last computation, as it was charged: its time with all delays, and how long it had the
  // device. A replay needs these, because sums lose last bits.
  Seconds last_charged{0}, last_busy{0};
  std::uint64_t steps = 0;    // compute calls of kind `step`
  TrafficBytes bytes_sent{};  // as charged
  TrafficBytes bytes_received{};
  // Calls of Comm with a buffer in GPU memory, by GpuPath; what a call sends and what it receives
  // are counted apart where each goes through the host.
  std::array<std::uint64_t, 4> gpu_buffers{};
  void count(GpuPath path) { ++gpu_buffers[static_cast<std::size_t>(path)]; }
  void count(Traffic kind, std::uint64_t sent, std::uint64_t received) {
    bytes_sent[static_cast<std::size_t>(kind)] += sent;
    bytes_received[static_cast<std::size_t>(kind)] += received;
  }
  // Adds the traffic, not the times: bytes that a background task sends count as its worker's.
  void add_traffic(const TimeBreakdown& other) {
    for (std::size_t i = 0; i < bytes_sent.size(); ++i) {
      bytes_sent[i] += other.bytes_sent[i];
      bytes_received[i] += other.bytes_received[i];
    }
    for (std::size_t i = 0; i < gpu_buffers.size(); ++i) gpu_buffers[i] += other.gpu_buffers[i];
  }
};

class WorkerAccount {
 public:
  // Made by the main process before its first background task; `so_far`: its own breakdown.
  explicit WorkerAccount(const TimeBreakdown& so_far) : before_(so_far) {}

  // One of the processes has computed, or has transferred bytes, from begin to end on the training
  // clock. Any thread.
  void computed(Seconds begin, Seconds end);
  void communicated(Seconds begin, Seconds end);
  // The main process has returned: what background tasks do from now on counts no more.
  void close();

  // `main`, the breakdown of the main process, with the shares of all processes. The three shares
  // add up to the same time. Called by the main process, or after its end.
  TimeBreakdown of(const TimeBreakdown& main) const;

 private:
  // Gaps between computations and transfers that are kept apart. A call that is in flight for
  // longer than that loses what lies before.
  static constexpr std::size_t kGaps = 512;

  const TimeBreakdown before_;
  mutable std::mutex mutex_;  // guards all below
  bool closed_ = false;
  IntervalSet computing_{kGaps}, busy_{kGaps};  // busy: computing or communicating
};

}  // namespace hetsgd
