// One run of the mpi cluster in this rank: its worker, the worker's background tasks, the
// endpoint that each of them sees, and the services. These run beside rank 0's worker, or in a rank
// of their own, the last.
//
//   the caller of run()        the channel's thread           threads of the run (Process)
//   --------------------       -----------------------        ------------------------------------
//   begin, clock offset   -->  kMet(begin)
//   World::run            -->                                 the worker sets up its device
//     start_clock()       -->  kMet(set_up)              -->  the worker's function, its background
//                              pace(), pauses, services       tasks; the services on their rank
//     finish()            -->  kMet(ended)               <--  all have returned
//   end_run, the report
//
// A segment has workers on some ranks only, those of its view. The others run no worker, like a
// rank of services: they answer control messages, run services and come to every point. If workers
// are lost (FailureVote) the World of every rank loses them. Its threads end like those of a run
// that failed, except for calls that all their ranks have begun (check_ins.hpp). Then run()
// returns.
//
// A failure may come at any point, from a thread of the run, from another rank or from outside. It
// aborts the World, whose threads unwind. The caller still comes to finish(), so that no rank frees
// memory that another one uses. finish() then throws the error that all ranks have agreed on.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/devices.hpp"
#include "cluster/mpi/comm.hpp"
#include "cluster/mpi/coordinator.hpp"
#include "cluster/mpi/service.hpp"
#include "cluster/realtime/process_endpoint.hpp"
#include "cluster/realtime/realtime_run.hpp"
#include "cluster/service_list.hpp"

namespace hetsgd::mpi {

using namespace realtime;

// Where a rank computes. Every rank computes the placement of every rank, by the same function of
// the same facts (cluster.cpp).
struct Placement {
  Seat seat;
  // Cores that this process may use; the seat's cores are some of them.
  std::vector<int> cores;
  // The ranks of this host have more threads to run than cores: nobody spins.
  bool oversubscribed = false;
  // This rank shares its GPU with another rank of this host.
  bool shares_gpu = false;
};

// The cluster keeps a run until its next one. Public functions below run() are called by the
// channel's thread, one at a time, between begin() and end_run() of the Coordinator. Exceptions are
// gpus() and new_group(), which processes call.
class MpiRun final : public CoordinatedRun, public CommHost, private RealtimeRun {
 public:
  // All references must outlive the run. Not collective.
  MpiRun(const ClusterOptions& options, Segment& segment, const Placement& placement);

  // Collective, once per object: `worker` is called on this rank's worker thread, where it has one.
  // Returns the report, complete on rank 0, and of this rank's own worker on the others. Throws the
  // run's error, the same on every rank.
  ClusterReport run(const std::function<void(Endpoint&)>& worker);

  // --- CoordinatedRun, for the Coordinator
  void fail(std::exception_ptr error) override { world_.abort(std::move(error)); }
  void stop() override { world_.stop_from_outside(); }
  std::int64_t stopped_at() override { return world_.stopped_at(); }
  void freeze(std::int64_t at) override { world_.freeze_from_outside(at); }
  // The pause that a process of this rank has asked for first is its own now.
  void grant() override;
  // The clock of all ranks goes on since `at`, in ns of this rank's monotonic clock.
  void resume(std::int64_t at, bool together) override;
  std::vector<Calls> lose(Seconds detected) override;
  void decide(const std::vector<Calls>& complete) override { check_ins_.decide(complete); }
  void left(int rank) override { services_.left(rank_in_view(rank)); }
  bool has(const std::string& name) const override { return services_.has(name); }
  void make(const std::string& name, const SerialisedFactory& factory) override {
    make_service(name, [&] { return make_service_handler(factory); });
  }
  // The work of the channel's thread for the run at each of its looks: it drives unfinished sends.
  Pace pace() override;
  // Some process has receives posted. False before the transport exists.
  bool still_receives() override {
    const Transport* const transport = started_;
    return transport && transport->still_receives();
  }
  // The waits of this rank's processes, for DeadlockVote.
  std::optional<Seconds> blocked(std::vector<BlockedProcess>& waiting) override;
  // --- CommHost, for communicators; called by processes
  int new_group() override;
  GpuRanks& gpus() override { return gpus_; }
  CheckIns* check_ins() override { return may_lose_ ? &check_ins_ : nullptr; }

 private:
  friend class MpiEndpoint;
  // A process that has asked for a pause; on its stack.
  struct PauseRequest {
    Process* process = nullptr;
    bool granted = false;
  };
  Process& start_helper(Process& parent, const std::string& name, std::function<void(Endpoint&)> fn,
                        ProcessKind kind) override;
  // A process opens a service: makes it where it runs in this rank, else offers its serialised
  // factory.
  void open_service(const std::string& name, const ServiceFactory& factory);
  // On the services' rank: starts the service, unless one of that name exists. Any thread.
  void make_service(const std::string& name,
                    const std::function<std::unique_ptr<ServiceHandler>()>& factory);
  // Runs fn, of the calling process, while the clocks of all ranks stand. The second form is
  // collective over all workers, and fn runs on the first of the view alone.
  void while_paused(FunctionRef fn);
  void while_paused_together(MpiComm& comm, FunctionRef fn);
  // The world's mutex is held at both ends: asks for a pause, waits for it, runs fn, and gives it
  // back.
  void pause_for_me(World::Lock& lock, bool together, FunctionRef fn);
  // For a process that has just made its device. Throws Error(device) if --all-reduce mpi cannot
  // work here.
  void prepare(Process& me) override;
  // Whether this rank's GPU memory is handed to the MPI library.
  bool gives_gpu_memory() const;
  // Called first in every thread that calls MPI.
  void enter_thread() const;
  // Outside of processes, before the clock runs: returns when done(), which looks for what other
  // ranks do. Throws Error(runtime) if the run has failed, and a rank is lost or has not come.
  template <class Done>
  void await_ranks(Done done);
  // Collective: makes messages_, a group of its own for this run's messages. Throws what
  // await_ranks() throws.
  void duplicate_world();
  // World::run() with the steps of all ranks; fills in workers that were lost.
  void run_world();
  // After a loss, when no process is left: returns when nothing that was sent is on its way.
  void drop_messages();
  bool has_worker() const { return rank_here_ >= 0; }
  // The rank in the view of the worker of a rank of the world; -1: it has none.
  int rank_in_view(int world_rank) const;
  // Collective, before the clock runs. Returns this rank's monotonic clock minus rank 0's, in ns.
  // Throws what await_ranks() throws.
  std::int64_t measure_offset();
  // All workers are set up. Returns when the clocks of all ranks start, in ns.
  std::int64_t start_clock();
  // Nothing of this rank runs any more but services: waits for the other ranks, and gathers the
  // reports.
  void finish();
  std::vector<std::byte> report_of_this_rank() const;
  ClusterReport report() const;

  Environment& environment_;
  Coordinator& coordinator_;
  const Placement& placement_;
  const int rank_, size_;
  // Ranks that run a worker of the segment, ascending.
  const std::vector<int> view_;
  // This rank's worker in the view; -1: it has none.
  const int rank_here_;
  // Workers are lost in this run, now or in another segment.
  const bool may_lose_;
  // The rank of the services.
  const int host_;
  // This rank's monotonic clock minus rank 0's.
  std::int64_t offset_ns_ = 0;
  // The run's own communicator; never freed (run.cpp).
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::unique_ptr<Transport> transport_;
  // transport_, once it exists, for the channel's thread.
  std::atomic<const Transport*> started_ = nullptr;
  // Outlives every group that refers to its communicators.
  GpuRanks gpus_;
  // This rank's GPU memory is handed to MPI, which takes pointers to it.
  const bool gives_gpu_memory_;
  // The channel's thread has called enter_thread(). That thread only.
  bool channel_entered_ = false;
  // The group of all workers, number 0.
  std::shared_ptr<Group> everybody_;
  CheckIns check_ins_;
  CallerNumbers callers_;
  // All processes of all ranks have ended: services stop.
  std::atomic<bool> ended_ = false;
  // On rank 0, by rank: RankReport as bytes.
  std::vector<std::vector<std::byte>> reports_;

  // Guarded by the world's mutex. pause_requests_: in the order of asking; rank 0 grants this
  // rank's pauses in the same order. together_*: how many common pauses this rank's worker has come
  // to, and how many are over.
  std::deque<PauseRequest*> pause_requests_;
  std::uint64_t together_begun_ = 0, together_done_ = 0;

  // The services of this rank. Empty except on the services' rank.
  ServiceList<MpiService> services_;
  // When unfinished sends last advanced. The channel's thread only.
  std::chrono::steady_clock::time_point progress_{};
};

// A worker's or a background task's handle, on the stack of its thread. Not thread-safe.
class MpiEndpoint final : public ProcessEndpoint {
 public:
  MpiEndpoint(MpiRun& run, Process& process);

  int size() const override { return comm_.size(); }
  Comm& comm() override { return comm_; }
  // A service is made by the worker of its rank, or by the serialised factory of the first other
  // rank that opens it: whichever comes first.
  std::shared_ptr<ServicePort> open_service_raw(const std::string& name,
                                                const ServiceFactory& factory) override;
  void pause_raw(bool together, FunctionRef fn) override {
    together ? run_.while_paused_together(comm_, fn) : run_.while_paused(fn);
  }

 private:
  void lose() override;
  MpiRun& run_;
  MpiComm comm_;
};

}  // namespace hetsgd::mpi
