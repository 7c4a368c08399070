// ProcessEndpoint: the common part of the endpoints of the threads and the mpi cluster. One thread
// computes on its own device, delays are made in real time, and monitors and cancellation tokens
// work between the processes of one address space.
//
// A computation on the training clock, its account being `compute` as a whole:
//
//   safepoint --> fn(), device done --> delay of the straggler scenario and --speed --> safepoint
//                 |<-- duration -->|    |<-- a pause may fall into it, and moves its end -->|
#pragma once

#include <atomic>
#include <limits>
#include <memory>

#include "cluster/cluster.hpp"
#include "cluster/endpoint.hpp"
#include "cluster/realtime/started_calls.hpp"
#include "cluster/realtime/world.hpp"
#include "cluster/segment.hpp"

namespace hetsgd::realtime {

// A flag that the computing process looks at before its computation and during its delay. Raising
// it needs no mutex and wakes nobody: the delay is slept in slices (waiting.cpp).
class RealtimeCancellationToken final : public CancellationToken {
 public:
  void cancel() override { cancelled_.store(true, std::memory_order_release); }
  void reset() override { cancelled_.store(false, std::memory_order_release); }
  const std::atomic<bool>& cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_ = false;
};

class ProcessEndpoint : public Endpoint {
 public:
  // Made by the thread of `process`, which alone uses it. All must outlive it. tasks: the run.
  ProcessEndpoint(World& world, const ClusterOptions& options, const Segment& segment,
                  Process& process, HelperStarter& tasks);

  int rank() const override { return process_.rank; }
  int id() const override { return segment_.id(process_.rank); }
  Seconds now() const override { return world_.now(); }
  Device& device() override { return *process_.device; }
  TimeBreakdown& time_breakdown() override { return process_.breakdown; }
  TimeBreakdown account() override { return account_of(process_); }

  // Runs fn on the calling thread; `work` is ignored. Returns when the device has the results.
  // Delays are made precise in the sum: by what one delay takes too long, the next is shorter.
  // Returns false and counts no step if the token was cancelled before. If it was cancelled
  // meanwhile, fn has run to its end, and the rest of the delay was dropped.
  bool compute_raw(CancellationToken* token, const Work& work, ComputeKind kind,
                   FunctionRef fn) override;
  std::unique_ptr<CancellationToken> make_cancellation_token() override;
  void sleep_raw(Seconds duration) override;
  // On abort a worker is unwound after its background tasks. Where a worker itself throws, its
  // stack goes first: what a background task uses should be its own or shared.
  void background_task_raw(std::string name, std::function<void(Endpoint&)> fn) override;
  std::unique_ptr<Monitor> make_monitor_raw() override;
  // All workers go on at the latest of the clocks at their ends.
  void go_on_raw() override;

 protected:
  // This worker is lost, and the others may know: ends the segment for all.
  virtual void lose() = 0;

  World& world_;
  Process& process_;

 private:
  void run_to_the_end(FunctionRef fn);
  // The delay to add. Counts a step of kind `step`, so it is called once for each computation.
  Seconds straggle(ComputeKind kind, Seconds start, Seconds duration);
  // Returns `requested` after the instant `from`, less what earlier delays took too long. False if
  // `unless` became true before its end.
  bool delay(Seconds from, Seconds requested, const std::atomic<bool>* unless = nullptr);
  // Sets lost_at_ from the scenario; called when the clock of the segment runs.
  void find_own_loss();
  // Called before each computation, and nowhere else. If this worker is lost by now: waits until
  // the others know, then lose(), and goes no further.
  void lose_if_due();

  const ClusterOptions& options_;
  const Segment& segment_;
  HelperStarter& tasks_;
  double speed_ = 1;
  // When this worker is lost; infinite: never, and for a background task.
  Seconds lost_at_{std::numeric_limits<double>::infinity()};
  bool is_set_up_;  // go_on() has returned, or need not be called
  HeldTasks held_;  // until then
};

// Fills in Segment::lost and Segment::detected.
void fill_in_lost_workers(const LostWorkers& loss, const ClusterOptions& options, Segment& segment);

// Throws Error(usage) if a speed is not above 0, or is above 1, because real time can only be
// stretched.
void check_speeds(const ClusterOptions& options, std::string_view cluster);

}  // namespace hetsgd::realtime
