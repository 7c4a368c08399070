// SimNode: what one simulated process sees of its cluster.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/node.hpp"
#include "cluster/sim/comm.hpp"
#include "cluster/sim/services.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// One-core devices, made on first use: those of workers by rank, and those of companions, reused.
// Host threads ask for them, too (device() inside a compute), hence the lock.
class SimDevices {
 public:
  explicit SimDevices(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  Device& of_worker(int rank);
  std::unique_ptr<Device> take();
  void give_back(std::unique_ptr<Device> device);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> workers_;
  std::vector<std::unique_ptr<Device>> free_;
};

// What the nodes of one run share.
struct SimRun {
  SimRun(const ClusterOptions& options_, SimDevices& devices_);

  const ClusterOptions& options;
  SimDevices& devices;
  Engine engine;
  World world;
  Services services;
  std::shared_ptr<Group> everybody;
  double fenced_s = 0;  // host time
};

class SimNode final : public Node {
 public:
  SimNode(SimRun& run, int rank, bool companion);
  ~SimNode() override;

  int rank() const override { return rank_; }
  int size() const override { return run_.options.workers; }
  Seconds now() const override { return Seconds(run_.engine.now()); }
  Device& device() override;
  Comm& comm() override { return comm_; }
  void compute(const Work& work, ComputeKind kind, FunctionRef fn) override;
  bool compute_unless(Interrupt& interrupt, const Work& work, ComputeKind kind,
                      FunctionRef fn) override;
  std::unique_ptr<Interrupt> make_interrupt() override;
  void sleep(Seconds duration) override;
  void companion(std::string name, std::function<void(Node&)> fn) override;
  std::unique_ptr<Monitor> make_monitor() override;
  std::shared_ptr<ServicePort> open_service(
      const std::string& name,
      const std::function<std::unique_ptr<ServiceHandler>()>& factory) override;
  void fence(FunctionRef fn) override;
  void fence_together(FunctionRef fn) override;
  Ledger& ledger() override { return ledger_; }

 private:
  // How long a computation that starts now takes, and what of it is a delay.
  struct Duration {
    Seconds time, delay;
  };
  Duration duration(const Work& work, ComputeKind kind);
  void account(const Duration& spent);

  SimRun& run_;
  int rank_;
  bool is_companion_;
  SimComm comm_;
  Ledger ledger_;
  std::unique_ptr<Device> device_;  // of a companion
};

}  // namespace hetsgd::sim
