// One run of the mpi cluster in this process: its worker, the worker's companions, the node that
// they see, and the services, which run beside rank 0 or in a rank of their own, the last.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/mpi/comm.hpp"
#include "cluster/mpi/coordinator.hpp"
#include "cluster/mpi/service.hpp"
#include "cluster/threads/devices.hpp"
#include "cluster/threads/process_node.hpp"

namespace hetsgd::mpi {

using threads::DeviceSpec;
using threads::Process;

// Where this rank computes.
struct Placement {
  DeviceSpec device;
  std::vector<int> pinned;  // empty: not pinned
  std::vector<int> cores;   // of the process
  bool crowded = false;     // the ranks of this host have more threads to run than cores
  bool shares_gpu = false;  // with another rank of this host
};

class Run final : public Local, public Groups {
 public:
  Run(const ClusterOptions& options, const Placement& placement);

  ClusterReport run(const std::function<void(Node&)>& worker);

  // Of the coordinator.
  void fail(std::exception_ptr error) override { world_.abort(std::move(error)); }
  void stop() override { world_.stop_from_outside(); }
  std::int64_t stopped_at() override { return world_.stopped_at(); }
  void freeze(std::int64_t at) override { world_.freeze_from_outside(at); }
  void grant() override;
  void resume(std::int64_t at, bool together) override;
  void left(int rank) override;
  void opened(int from, const std::string& name) override;
  void make(const std::string& name, const ServiceRecipe& recipe) override;
  Pace pace() override;
  bool still_receives() override {
    const Transport* const transport = started_;
    return transport && transport->still_receives();
  }
  std::optional<Seconds> blocked(std::vector<BlockedProcess>& waiting) override;
  int new_group() override;
  GpuRanks& gpus() override { return gpus_; }

 private:
  friend class MpiNode;
  struct FenceRequest {
    Process* process = nullptr;
    bool granted = false;
  };
  void start_worker(const std::function<void(Node&)>& worker);
  void start_companion(Process& parent, const std::string& name, std::function<void(Node&)> fn);
  void open_service(const std::string& name,
                    const std::function<std::unique_ptr<ServiceHandler>()>& factory,
                    const std::function<ServiceRecipe()>& recipe);
  void make_service(const std::string& name,
                    const std::function<std::unique_ptr<ServiceHandler>()>& factory);
  bool has_service(const std::string& name) const;  // services' mutex held
  bool answer_openers();
  void fence(FunctionRef fn);
  void fence_together(MpiComm& comm, FunctionRef fn);
  void fenced_by_me(World::Lock& lock, bool together, FunctionRef fn);
  void set_up(Process& me, bool pin);
  bool gives_gpu_memory() const;
  void enter_thread() const;
  std::int64_t measure_offset();
  std::int64_t start_clock();
  void finish();
  std::vector<std::byte> report_of_this_rank() const;
  ClusterReport report() const;

  Environment& environment_;
  Coordinator& coordinator_;
  const ClusterOptions& options_;
  const Placement& placement_;
  const int rank_, size_;
  const int workers_;  // ranks that run one: the first
  const int host_;     // rank of the services
  World world_;
  std::int64_t offset_ns_ = 0;  // of this rank's monotonic clock to rank 0's
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::unique_ptr<Transport> transport_;
  std::atomic<const Transport*> started_ = nullptr;  // for the channel's thread
  GpuRanks gpus_;
  const bool gives_gpu_memory_;   // to MPI, which takes pointers to it
  bool channel_entered_ = false;  // the channel's thread's
  std::shared_ptr<Group> everybody_;
  std::atomic<int> callers_ = 0;  // nodes so far
  std::atomic<bool> ended_ = false;
  std::vector<int> pinned_;  // the worker's cores, as they are
  std::vector<std::vector<std::byte>> reports_;

  // Guarded by the world's mutex.
  std::deque<FenceRequest*> fence_requests_;
  std::uint64_t together_begun_ = 0, together_done_ = 0;

  std::mutex services_mutex_;  // guards the list and the making of services
  std::vector<std::shared_ptr<MpiService>> services_;
  std::vector<int> left_;  // workers that have ended
  struct Opener {
    int rank = 0;
    std::string name;
    std::chrono::steady_clock::time_point until{};  // so long the host may open it itself
  };
  std::vector<Opener> openers_;                       // not answered yet
  std::set<std::string> announced_;                   // services whose recipe is on its way
  std::chrono::steady_clock::time_point progress_{};  // of unfinished sends; the channel's thread's
};

class MpiNode final : public threads::ProcessNode {
 public:
  MpiNode(Run& run, Process& process);

  int size() const override { return comm_.size(); }
  Comm& comm() override { return comm_; }
  void companion(std::string name, std::function<void(Node&)> fn) override;
  // The service is made when its rank opens it; where that rank does not, by the recipe of the first
  // that has opened it.
  std::shared_ptr<ServicePort> open_service(
      const std::string& name,
      const std::function<std::unique_ptr<ServiceHandler>()>& factory) override {
    return open_portable_service(name, factory, {});
  }
  std::shared_ptr<ServicePort> open_portable_service(
      const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory,
      const std::function<ServiceRecipe()>& recipe) override;
  void fence(FunctionRef fn) override { run_.fence(fn); }
  void fence_together(FunctionRef fn) override { run_.fence_together(comm_, fn); }

 private:
  Run& run_;
  MpiComm comm_;
  const int caller_;
};

}  // namespace hetsgd::mpi
