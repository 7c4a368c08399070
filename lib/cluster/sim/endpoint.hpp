// SimEndpoint: what one simulated process sees of its cluster.
//
// compute() in virtual time and on the host:
//
//   virtual time   call |------- duration(work) -------| due: the process goes on
//   host           submit ...  fn on a pool thread ... | finish(): waits for fn, or runs it now
//
// Where other processes of the worker compute meanwhile it takes longer (DeviceTimeline): an
// event that finds that its computation's end has moved waits for that.
//
// Where the host's cores are shared (host_cores.hpp) a worker on a CPU has no device timeline. Its
// computations are tasks of the cores, followed by the delays that --straggler and --speed add to
// the time that they have taken, as on a real cluster.
//
// The event at the due time is scheduled before fn has run, so its time cannot depend on the host.
// An exception of fn leaves compute() at the due time, too.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/endpoint.hpp"
#include "cluster/segment.hpp"
#include "cluster/sim/comm.hpp"
#include "cluster/sim/services.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// DeviceTimeline: one worker's device in virtual time, which all its processes compute on.
//
// Vector operations go first, one after the other in the order of their starts. A step goes on
// while there are none, as the kernels of two streams share a GPU. So no part of the device's time
// is given twice: vector operations of other processes delay the end of a step by the time that
// they take.
//
//   background task   .        |== v1 ==|     |== v2 ==|
//   main process      |= step =|........|=====|........|=  step  |- injected delay -|
//                     start                              start + step + v1 + v2
//
// The device rests in the extra delays that a straggler scenario adds to a step, and while a vector
// is copied to the host or back. Vector operations that come then take nothing of the step. Two
// steps at once, which no algorithm computes, do not slow each other down.

// Used on the event loop's thread; times are virtual seconds.
class DeviceTimeline {
 public:
  // One computation. It stays where it is until its end, or until it is cut short, and goes before
  // the device.
  class Use {
   public:
    // Starts now. Alone it would take `busy` on the device and end after `whole` >= busy.
    Use(DeviceTimeline& device, double now, ComputeKind kind, double busy, double whole)
        : device_(device) {
      waited_ = std::max(0.0, device.vectors_until_ - now);
      busy_until_ = now + waited_ + busy;
      end_ = now + waited_ + whole;
      if (kind == ComputeKind::vector) {
        device.hold_up_steps(now, busy, busy_until_);
      } else {
        next_ = std::exchange(device.steps_, this);
      }
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      Use** place = &device_.steps_;
      while (*place != nullptr && *place != this) place = &(*place)->next_;
      if (*place == this) *place = next_;
    }

    // The end as far as it is known: the end of a step may move while the step goes on.
    double end() const { return end_; }
    // Seconds for which this computation waited for the device.
    double waited() const { return waited_; }

   private:
    friend class DeviceTimeline;
    DeviceTimeline& device_;
    Use* next_ = nullptr;  // next in the list of steps that go on
    double busy_until_ = 0, end_ = 0, waited_ = 0;
  };

 private:
  // A vector operation has been put on the device, up to `until`.
  void hold_up_steps(double now, double seconds, double until) {
    vectors_until_ = until;
    for (Use* step = steps_; step != nullptr; step = step->next_) {
      if (now >= step->busy_until_) continue;
      step->busy_until_ += seconds;
      step->end_ += seconds;
      step->waited_ += seconds;
    }
  }

  double vectors_until_ = 0;
  Use* steps_ = nullptr;
};

// One-core devices, made on first use: those of workers by rank, and those of background tasks,
// reused. Host threads ask for them, too (device() inside a compute), hence the lock. One core
// each, as the parallelism is between workers; a device with threads of its own would oversubscribe
// the host.
//
// They belong to the cluster and not to a run: buffers that an algorithm leaves behind, such as the
// final model, may outlive the run that made them.
class SimDevices {
 public:
  SimDevices(int workers, Precision precision)
      : precision_(precision), workers_(static_cast<std::size_t>(workers)) {}
  // The reference is valid as long as this object.
  Device& of_worker(int rank);
  // Until give_back() the device is the caller's alone.
  std::unique_ptr<Device> take();
  void give_back(std::unique_ptr<Device> device);

 private:
  const Precision precision_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> workers_;
  std::vector<std::unique_ptr<Device>> free_;
};

// State that the endpoints of one run share. The members' order is that of their dependence:
// services and groups refer to the world, the world to the engine, so the engine goes last.
// Outlives all endpoints.
struct SimRun {
  SimRun(const ClusterOptions& options_, SimDevices& devices_, Segment& segment_);

  const ClusterOptions& options;
  SimDevices& devices;
  Segment& segment;
  const int size;                         // of the view
  std::vector<DeviceTimeline> timelines;  // by rank; computations of fibers that are unwound use it
  Engine engine;
  World world;
  Services services;
  std::shared_ptr<Group> everybody;  // the group of Endpoint::comm()
  double paused_s = 0;               // host time
  // Main processes in go_on(), by rank. The clock goes on when all have come and no event of their
  // set-up is left.
  std::vector<Process*> set_up;
  bool start_clock();
  // For Engine::Hooks.
  std::function<double(double, bool)> lateness();
  // Schedules the event of the next loss of a worker of the view after `time`, if there is one
  // before the others know of those before.
  void schedule_loss(Seconds time);

 private:
  int rank_of(int worker) const;
  static void lose(void* object);    // an event
  static void detect(void* object);  // an event
  std::vector<int> losing_;          // workers that are lost at the next event
  Seconds lost_at_{0};
};

// One per process: those of workers belong to the cluster's run(), that of a background task to its
// body. All members but device() are called by fibers, one at a time, so nothing is locked.
class SimEndpoint final : public Endpoint {
 public:
  // `parent`: the endpoint of the worker's process that starts this background task; null: this is
  // the main process.
  SimEndpoint(SimRun& run, int rank, const SimEndpoint* parent);
  ~SimEndpoint() override;

  int rank() const override { return rank_; }
  int size() const override { return run_.size; }
  int id() const override { return id_; }
  Seconds now() const override { return Seconds(run_.engine.now()); }
  Device& device() override;
  // The profile decides: the mathematics runs on a core of the host all the same.
  bool in_host_memory() override { return run_.options.profile_of(id_).in_host_memory(); }
  Comm& comm() override { return comm_; }
  bool compute_raw(CancellationToken* token, const Work& work, ComputeKind kind,
                   FunctionRef fn) override;
  void compute_in_place_raw(const Work& work, ComputeKind kind,
                            const InPlaceComputation& how) override;
  std::unique_ptr<CancellationToken> make_cancellation_token() override;
  void sleep_raw(Seconds duration) override;
  void background_task_raw(std::string name, std::function<void(Endpoint&)> fn) override;
  std::unique_ptr<Monitor> make_monitor_raw() override;
  std::shared_ptr<ServicePort> open_service_raw(const std::string& name,
                                                const ServiceFactory& factory) override;
  void go_on_raw() override;
  void pause_raw(bool together, FunctionRef fn) override;
  TimeBreakdown& time_breakdown() override { return breakdown_; }
  TimeBreakdown account() override { return account_ ? account_->of(breakdown_) : breakdown_; }
  // The main process has returned.
  void close_account() {
    if (account_) account_->close();
  }

 private:
  // Time of a computation that starts now and runs alone. delay: how much longer it takes than at
  // speed 1 without stragglers, at least 0. busy: how long it has the device, which is all but the
  // extra delays.
  struct Duration {
    Seconds time, delay, busy;
  };
  // For kind `step` it also begins the next iteration, the one that the scenario draws for. Each
  // process counts its own iterations.
  Duration duration(const Work& work, ComputeKind kind);
  // Time of the work alone on the device at speed 1.
  Seconds at_full_speed(const Work& work, ComputeKind kind) const;
  // By the device profile; vector operations are stated for the real size.
  Seconds scaled_seconds(const Work& work, ComputeKind kind) const;
  // True: a computation of this kind takes one of the host's shared cores.
  bool on_cores(ComputeKind kind) const {
    return kind != ComputeKind::transfer && run_.world.computes_on_cores(id_);
  }
  // The same where cores are shared: the seconds on a core, and the delay after a computation that
  // has begun at `start` and taken `elapsed`.
  Seconds core_seconds(const Work& work, ComputeKind kind);
  Seconds delay_after(ComputeKind kind, Seconds start, Seconds elapsed);
  // compute_raw() on the worker's device, or on a core that it shares; returns whether it came to
  // its end before `stop` was cancelled. is_whole: nobody cancels it.
  bool run_on_device(SimCancellationToken& stop, bool is_whole, const Work& work, ComputeKind kind,
                     HostTask& task);
  bool run_on_cores(SimCancellationToken& stop, bool is_whole, const Work& work, ComputeKind kind,
                    HostTask& task);
  void charge(ComputeKind kind, Seconds time, Seconds delay);
  // Notes in the worker's account, if there is one, that this process has computed from `start`
  // until now.
  void note(ComputeKind kind, Seconds start);
  DeviceTimeline& timeline() { return run_.timelines[at(id_)]; }

  SimRun& run_;
  int rank_;
  int id_;
  bool is_background_task_;
  SimComm comm_;
  TimeBreakdown breakdown_;
  std::shared_ptr<WorkerAccount> account_;  // null until the worker has a background task
  std::unique_ptr<Device> device_;          // device of a background task
  bool is_set_up_;                          // go_on() has returned, or need not be called
  HeldTasks held_;                          // until then
};

}  // namespace hetsgd::sim
