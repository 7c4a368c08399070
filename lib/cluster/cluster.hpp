// Cluster: where a run's workers live. `sim` (fibers, virtual time), `threads` (threads, a
// monotonic clock) and `mpi` (one process per worker, monotonic clocks) are in sub-folders; each
// registers itself here by name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster/endpoint.hpp"
#include "cluster/process_group.hpp"
#include "cluster/profile.hpp"
#include "cluster/segment.hpp"
#include "cluster/straggler.hpp"
#include "cluster/worker_account.hpp"
#include "core/units.hpp"
#include "linalg/convolution_kernels.hpp"

namespace hetsgd {

// How buffers in GPU memory travel. Collectives between GPUs of one process (threads), if every
// rank of the group brings memory of a GPU:
//   automatic : nccl, where every worker has a GPU of its own and the library is there; else ring
//   nccl      : NVIDIA's library; not with several workers on one GPU
//   ring      : partition r of the vector is added up on the GPU of rank r, whose streams get it
//               from the others around the ring, starting with the next; sums in rank order
//   tree      : partition r goes up a binomial tree that ends at rank r, and down again
//   host      : through host memory; sums in rank order
// Between ranks of mpi:
//   automatic : large collectives by nccl, where every rank of the group has a GPU of its own and
//               the library in the same version; everything else by mpi, where the MPI library
//               takes pointers to GPU memory and no other rank of the host has this GPU; else by
//               host
//   nccl      : the same, but where nccl cannot work it is an error
//   mpi       : messages out of and into GPU memory, sums on the GPU in rank order
//   host      : messages out of and into host memory
// Everything else goes through host memory.
enum class AllReduce { automatic, nccl, ring, tree, mpi, host };

// Options of a run's cluster. Every cluster reads the first part and the parts that name it, and
// ignores the rest, so that one set of options can be given to all. An `int worker` is a number in
// the run, here and below.
struct ClusterOptions {
  int workers = 1;
  std::uint64_t seed = 1;
  // Relative speed per worker, > 0; empty: all 1. A shorter list repeats its last value.
  std::vector<double> speed;
  double speed_of(int worker) const {
    if (speed.empty()) return 1;
    return speed[std::min(static_cast<std::size_t>(worker), speed.size() - 1)];
  }
  std::shared_ptr<const Scenario> scenario;  // null: no stragglers
  Seconds detect{0.5};                       // from the loss of a worker until the others know
  // sim
  // Device profiles by worker, at least one; a shorter list repeats its last.
  std::vector<DeviceProfile> profiles{1};
  const DeviceProfile& profile_of(int worker) const {
    return profiles[std::min(static_cast<std::size_t>(worker), profiles.size() - 1)];
  }
  // Device profile of the host that runs the services; none: the profile of the first worker.
  std::optional<DeviceProfile> server_profile = {};
  NetworkModel network;
  double payload_scale = 1;  // charged bytes per real byte of parameters and gradients (--charge)
  double rows_scale = 1;     // the same for rows of sharded tables and for sums of their gradients
  double ids_scale = 1;      // the same for the ids of requested rows
  // Charged bytes of all rows from one worker to another in one call, whatever their real number.
  // Used by a charge that was fitted to a volume, in place of rows_scale.
  std::optional<double> rows_part_bytes = {};
  // Charged work per stated work of kind `vector` (--charge). The work of a step is stated as
  // charged.
  double work_scale = 1;
  // Time of a worker's iteration at speed 1, in place of the time of its work; null: the time of
  // its work. Stragglers come on top. In a step of several parts the first part takes all of it.
  std::function<Seconds(int worker, std::uint64_t iteration)> step_time = nullptr;
  // Recorded times of the steps of workers' main processes, stragglers included. Null: the times
  // follow from work, speed and scenario.
  struct StepRequest {
    int worker = 0;
    std::uint64_t iteration = 0;
    Seconds now{0};
    const Work& work;
  };
  struct StepTimes {
    Seconds time{0};
    Seconds busy{0};  // how long the step occupies the device; `time` adds transfers and delays
  };
  std::function<StepTimes(const StepRequest&)> recorded_step = nullptr;
  int host_threads = 0;  // 0: all cores
  // Cores of the host that workers on CPUs, services and copies share in virtual time
  // (sim/host_cores.hpp); 0: each has as many cores as it wants. Not together with recorded_step.
  int host_cores = 0;
  // Precision of the dense products of steps. In sim it also sets the rate that steps are charged.
  Precision precision = Precision::fp32;
  // real time (threads and mpi)
  // Devices by worker, for example "cpu:1"; a shorter list repeats its last; empty: cpu:1.
  std::vector<std::string> devices;
  ConvolutionLibrary convolution_library = ConvolutionLibrary::own;  // convolutions on GPUs
  AllReduce all_reduce = AllReduce::automatic;
  // mpi alone
  // True: the last rank runs the services and no worker, so there is one rank more than workers.
  // False: the services run beside rank 0.
  bool service_rank = false;
  Seconds peer_timeout = kPeerTimeout;  // a rank without a heartbeat for so long ends the run
};

// A worker after the run (or before: Cluster::planned), for the result's workers[].
struct WorkerReport {
  int rank = 0;  // its number in the run, whatever the view
  std::string device;
  TimeBreakdown breakdown;
  Seconds ended{0};          // when its main process returned, on the training clock
  std::string profile{};     // sim: the name of its device profile
  std::vector<int> cores{};  // the worker is pinned to these; empty: it is not pinned
  // mpi:
  std::string host{};
  std::int64_t pid = 0;
  Seconds clock_offset{0};  // this rank's monotonic clock minus rank 0's, as measured
};

// The result of run(). Under MPI it is complete in the process of rank 0 only; the others have
// the report on their own worker.
struct ClusterReport {
  std::vector<WorkerReport> workers;
  Seconds elapsed{0};        // training clock at the end
  Seconds paused{0};         // wall-clock time off the training clock
  std::uint64_t events = 0;  // sim: events handled
  // sim: busy time of the link of the services' host, in its busier direction.
  Seconds server_link_busy{0};
};

// Ends a run from outside, which is no error of any rank. Every rank throws an Interrupted with
// the signal of the rank that got it first.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& why) : std::runtime_error(why), signal_(signal) {}
  int signal() const { return signal_; }  // 0: the time limit

 private:
  int signal_;
};

// The workers of one set of options. Made by make_cluster().
class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual std::string name() const = 0;
  virtual int size() const = 0;
  bool is_virtual() const;  // as its kind: clock values are simulated
  // The device of a worker as the result names it; after run() the report may say more (its core).
  virtual std::string device_name(int worker) const = 0;
  // The GPU that computes a worker's steps. -1: cores compute them, as always on a simulated
  // cluster, because its devices only have a GPU's name.
  int gpu(int worker) const;
  // True: the worker runs in this process, and what it writes is visible here.
  virtual bool runs_here(int worker) const {
    static_cast<void>(worker);
    return true;
  }
  // A report on a worker before the run: it has no time breakdown.
  virtual WorkerReport planned(int worker) const {
    return {.rank = worker, .device = device_name(worker), .breakdown = {}};
  }
  // Runs worker(endpoint) once per rank that runs here. Returns when the workers of all ranks and
  // everything that they have started have returned. The report is complete in the process of rank
  // 0. If one throws, all others are woken and unwound (a cluster-internal exception passes through
  // the algorithm's frames) and the first exception is rethrown. When no process can go on, throws
  // Error(runtime) that names every process and its blocking point.
  ClusterReport run(const std::function<void(Endpoint&)>& worker) {
    Segment whole;
    return run_segment(worker, whole);
  }
  // The same for one segment of a longer run.
  virtual ClusterReport run_segment(const std::function<void(Endpoint&)>& worker,
                                    Segment& segment) = 0;
  // From any thread or signal-polling code: makes run() end as if a process had thrown `error`. Not
  // from a signal handler, as it locks. The first error counts. Does not wait for the end.
  virtual void abort(std::exception_ptr error) = 0;
};

// A kind of cluster, as it is known before one is made.
struct ClusterKind {
  std::string name;
  std::string help;  // a few words, for the list of all kinds
  std::function<std::unique_ptr<Cluster>(const ClusterOptions&)> make{};
  bool is_virtual = false;  // its time is simulated
  // Joins the processes of its workers at the first call; they must come within `peer_timeout`.
  // Null: the workers share this process.
  std::function<ProcessGroup&(Seconds peer_timeout)> join{};
  std::string missing{};  // empty: built in; else how to build a binary that has this kind
};

// Called by each cluster's own file while static objects are initialised, before main(), on one
// thread: `const bool registered = register_cluster({...})`. Returns true. Checked: the name is
// new.
bool register_cluster(ClusterKind kind);
// Throws Error(usage) for an unknown name, listing the known ones, and Error(device) if it is not
// built in.
const ClusterKind& cluster_kind(const std::string& name);
// Throws what cluster_kind() and the constructor of the cluster throw.
std::unique_ptr<Cluster> make_cluster(const std::string& name, const ClusterOptions& options);
std::vector<std::string> cluster_names();
// Names of the clusters whose workers live in this process.
std::vector<std::string> local_cluster_names();
// The cluster of a run that names none: that of the launcher that started this process, else a
// cluster inside this process, in virtual or in real time.
std::string default_cluster(bool is_virtual);

// The processes that carry out a command on this cluster together. If its workers are processes the
// first call joins them (under MPI it initialises MPI). Throws what cluster_kind() throws, and
// Error(device) if the library cannot be used.
ProcessGroup& processes_of(const std::string& cluster, Seconds peer_timeout = kPeerTimeout);
// True: a launcher has started this process as one of those that run a command on `cluster`
// together.
bool runs_together(const std::string& cluster);
// The group that this process has joined; null: none.
ProcessGroup* joined_processes();

}  // namespace hetsgd
