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

#include <mutex>

#include "cluster/time_breakdown.hpp"
#include "core/interval_set.hpp"

namespace hetsgd {

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
  // Gaps between computations and transfers that are kept apart. A call that is under way for
  // longer than that loses what lies before.
  static constexpr std::size_t kGaps = 512;

  const TimeBreakdown before_;
  mutable std::mutex mutex_;  // guards all below
  bool closed_ = false;
  IntervalSet computing_{kGaps}, busy_{kGaps};  // busy: computing or communicating
};

}  // namespace hetsgd
