// ThreadsEndpoint: the vocabulary for one process of the threads cluster, and what the endpoints of
// a run share.
//
// Who owns what: the cluster owns the Run; the Run owns the world with its threads and processes,
// the group of all ranks, the pool of messages and the services. An endpoint lies on the stack of
// its thread, and so ends before its thread does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/realtime/local_run.hpp"
#include "cluster/realtime/process_endpoint.hpp"
#include "cluster/threads/comm.hpp"
#include "cluster/threads/service.hpp"

namespace hetsgd::threads {

// One run. Lives until the cluster's next run, so that device memory which a run leaves behind can
// still be released: the devices belong to its processes.
//
// Its phases, on the thread that calls run():
//
//   worker threads started --> all set up --> clock runs --> workers and background tasks ended -->
//   services ended, all threads joined --> services destroyed --> report, or the first error
class Run final : public BackgroundTasks, private LocalRun {
 public:
  // devices: by rank; cores: those that this process may use. Errors (device): what keeps
  // options.all_reduce from working between the GPUs.
  Run(const ClusterOptions& options, std::vector<DeviceSpec> devices, std::vector<int> cores);

  // Once. Calls worker(endpoint) in one thread per rank. Rethrows the first error, by then with
  // every thread joined; nothing refers to `worker` afterwards.
  ClusterReport run(const std::function<void(Endpoint&)>& worker);
  // Any thread, also before run(), which then ends as soon as the workers are set up.
  void abort(std::exception_ptr error) { world_.abort(std::move(error)); }

 private:
  friend class ThreadsEndpoint;
  Process& start_background_task(Process& parent, const std::string& name,
                                 std::function<void(Endpoint&)> fn, ProcessKind kind) override;

  const std::vector<DeviceSpec> devices_;        // by rank
  const std::vector<std::vector<int>> pinning_;  // by rank
  MessagePool pool_;                             // guarded by the world's mutex
  std::shared_ptr<Group> everybody_;             // all ranks; endpoints share it
  ServiceList<ThreadsService> services_;
};

// The endpoint of a worker, and of each of its background tasks: all of one rank see the same
// group, so they share its mailbox, and a collective may be called by one of them at a time.
class ThreadsEndpoint final : public ProcessEndpoint {
 public:
  ThreadsEndpoint(Run& run, Process& process);

  int size() const override { return comm_.size(); }
  Comm& comm() override { return comm_; }

  // On abort a worker is unwound after its background tasks. Where a worker itself throws, its
  // stack goes first: what a background task uses should be its own or shared.
  void background_task(std::string name, std::function<void(Endpoint&)> fn) override;
  std::shared_ptr<ServicePort> open_service(
      const std::string& name,
      const std::function<std::unique_ptr<ServiceHandler>()>& factory) override;
  void while_paused(FunctionRef fn) override;
  void while_paused_together(FunctionRef fn) override;

 private:
  Run& run_;
  ThreadsComm comm_;
};

}  // namespace hetsgd::threads
