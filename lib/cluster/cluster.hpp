// Cluster: where a run's workers live. `sim` (fibers, virtual time), `threads` (threads, a monotonic
// clock) and `mpi` (one process per worker, monotonic clocks) are in sub-folders; each registers
// itself here by name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster/ledger.hpp"
#include "cluster/node.hpp"
#include "cluster/profile.hpp"
#include "cluster/straggler.hpp"
#include "core/units.hpp"

namespace hetsgd {

// How buffers in GPU memory travel. Collectives between GPUs of one process (threads), where every
// rank of the group brings the memory of one:
//   automatic : nccl, where every worker has a GPU of its own and the library is there; else ring
//   nccl      : NVIDIA's library; not with several workers on one GPU
//   ring      : partition r of the vector is added up on the GPU of rank r, whose streams get it
//               from the others around the ring, starting with the next; sums in rank order
//   tree      : partition r goes up a binomial tree that ends at rank r, and down again
//   host      : through host memory; sums in rank order
// Between ranks of mpi:
//   automatic : large collectives by nccl, where every rank of the group has a GPU of its own and
//               the library in the same version; everything else by mpi, where the MPI library takes
//               pointers to GPU memory and no other rank of the host has this GPU; else by host
//   nccl      : the same, but where nccl cannot work it is an error
//   mpi       : messages out of and into GPU memory, sums on the GPU in rank order
//   host      : messages out of and into host memory
// Whatever is not named here goes through host memory.
enum class AllReduce { automatic, nccl, ring, tree, mpi, host };

struct ClusterOptions {
  int workers = 1;
  std::uint64_t seed = 1;
  // Relative speed per worker, > 0; empty: all 1. Shorter lists repeat their last value.
  std::vector<double> speed;
  double speed_of(int rank) const {
    if (speed.empty()) return 1;
    return speed[std::min(static_cast<std::size_t>(rank), speed.size() - 1)];
  }
  std::shared_ptr<const Scenario> scenario;  // null: no stragglers
  // sim
  DeviceProfile profile;
  NetworkModel network;
  double payload_scale = 1;  // charged bytes per real byte of parameters and gradients (--charge)
  // Charged work per stated work of kind `vector` (--charge); steps state theirs charged.
  double work_scale = 1;
  int host_threads = 0;  // 0: all cores
  // threads
  // One per worker, e.g. "cpu:1"; fewer repeat the last; empty: cpu:1.
  std::vector<std::string> devices;
  Precision precision = Precision::fp32;  // of GPUs' products
  AllReduce all_reduce = AllReduce::automatic;
  // mpi
  // The last rank runs the services and no worker: one rank more than workers. Else they run beside
  // rank 0.
  bool service_rank = false;
  Seconds peer_timeout{60};  // a rank without a sign of life for so long ends the run
};

struct WorkerReport {
  int rank = 0;
  std::string device;
  Ledger ledger;
  std::vector<int> cores{};  // pinned to these; empty: to none
  // mpi:
  std::string host{};
  std::int64_t pid = 0;
  Seconds clock_offset{0};  // of this rank's monotonic clock to rank 0's, as measured
};

struct ClusterReport {
  std::vector<WorkerReport> workers;
  Seconds elapsed{0};        // training clock at the end
  Seconds fenced{0};         // host time off the clock
  std::uint64_t events = 0;  // sim: events handled
};

// Ends a run from outside: no error of anybody's. Every rank throws it as what it is, with the
// signal of the rank that got it first.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& why) : std::runtime_error(why), signal_(signal) {}
  int signal() const { return signal_; }  // 0: the time limit

 private:
  int signal_;
};

class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual std::string name() const = 0;
  virtual int size() const = 0;
  virtual bool is_virtual() const = 0;  // true: clock values are simulated
  // The device of a worker as the result names it; after run() the report may say more (its core).
  virtual std::string device_name(int rank) const = 0;
  // What is known of a worker before the run: a report without a ledger.
  virtual WorkerReport planned(int rank) const {
    return {.rank = rank, .device = device_name(rank), .ledger = {}};
  }
  // Runs worker(node) once per rank (mpi: in each process once, for its own rank; the report is
  // complete on rank 0) and returns when all processes have returned. If one throws,
  // all others are woken and unwound (a cluster-internal exception passes through the algorithm's
  // frames) and the first exception is rethrown. When no process can go on, throws Error(runtime)
  // that names every process and its blocking point.
  virtual ClusterReport run(const std::function<void(Node&)>& worker) = 0;
  // From any thread or signal-polling code: makes run() end as if a process had thrown `error`.
  virtual void abort(std::exception_ptr error) = 0;
};

using ClusterFactory = std::function<std::unique_ptr<Cluster>(const ClusterOptions&)>;

// Called by each cluster's own file at start-up:
// `const bool sim_registered = register_cluster("sim", ...)`.
bool register_cluster(const std::string& name, const std::string& help, ClusterFactory factory);
// Errors: usage; the unknown name, the known ones and how to build what this binary lacks (mpi).
std::unique_ptr<Cluster> make_cluster(const std::string& name, const ClusterOptions& options);
std::vector<std::string> cluster_names();
// Without those whose workers are processes of their own (mpi).
std::vector<std::string> local_cluster_names();

}  // namespace hetsgd
