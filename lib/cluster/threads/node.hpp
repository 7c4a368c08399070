// ThreadsNode: the vocabulary for one process of the threads cluster, and what the nodes of a run
// share.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/threads/comm.hpp"
#include "cluster/threads/devices.hpp"
#include "cluster/threads/process_node.hpp"
#include "cluster/threads/service.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

// One run. Lives until the cluster's next run, so that device memory which a run leaves behind can
// still be released.
class Run {
 public:
  Run(const ClusterOptions& options, std::vector<DeviceSpec> devices, std::vector<int> cores);

  ClusterReport run(const std::function<void(Node&)>& worker);
  void abort(std::exception_ptr error) { world_.abort(std::move(error)); }

 private:
  friend class ThreadsNode;
  void start_worker(int rank, const std::function<void(Node&)>& worker);
  void start_companion(Process& parent, const std::string& name, std::function<void(Node&)> fn);
  std::shared_ptr<ThreadsService> open_service(
      const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory);
  void worker_left(int rank);
  void set_up(Process& me, bool pin);
  ClusterReport report() const;

  const ClusterOptions& options_;
  const std::vector<DeviceSpec> devices_;        // by rank
  const std::vector<int> cores_;                 // of the process
  const std::vector<std::vector<int>> pinning_;  // by rank
  World world_;
  MessagePool pool_;
  std::shared_ptr<Group> everybody_;
  std::mutex services_mutex_;  // guards the list and the making of services
  std::vector<std::shared_ptr<ThreadsService>> services_;
  std::vector<int> left_;  // workers that have ended
};

class ThreadsNode final : public ProcessNode {
 public:
  ThreadsNode(Run& run, Process& process);

  int size() const override { return comm_.size(); }
  Comm& comm() override { return comm_; }

  // On abort a worker is unwound after its companions. Where a worker itself throws, its stack goes
  // first: what a companion uses should be its own or shared.
  void companion(std::string name, std::function<void(Node&)> fn) override;
  std::shared_ptr<ServicePort> open_service(
      const std::string& name,
      const std::function<std::unique_ptr<ServiceHandler>()>& factory) override;
  void fence(FunctionRef fn) override;
  void fence_together(FunctionRef fn) override;

 private:
  Run& run_;
  ThreadsComm comm_;
};

}  // namespace hetsgd::threads
