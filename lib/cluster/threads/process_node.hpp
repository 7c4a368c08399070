// ProcessNode: what a node of the threads cluster and one of the mpi cluster have in common: one
// thread that computes on its own device, delays that are made in real time, monitors and
// interrupts between the processes of one address space.
#pragma once

#include <atomic>
#include <memory>

#include "cluster/cluster.hpp"
#include "cluster/node.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

class ThreadsInterrupt final : public Interrupt {
 public:
  void raise() override { raised_.store(true, std::memory_order_release); }
  void lower() override { raised_.store(false, std::memory_order_release); }
  const std::atomic<bool>& raised() const { return raised_; }

 private:
  std::atomic<bool> raised_ = false;
};

class ProcessNode : public Node {
 public:
  ProcessNode(World& world, const ClusterOptions& options, Process& process);

  int rank() const override { return process_.rank; }
  Seconds now() const override { return world_.now(); }
  Device& device() override { return *process_.device; }
  Ledger& ledger() override { return process_.ledger; }

  // On the calling thread. Delays are made precise in the sum: what one delay takes too long, the
  // next is shorter.
  void compute(const Work& work, ComputeKind kind, FunctionRef fn) override;
  bool compute_unless(Interrupt& interrupt, const Work& work, ComputeKind kind,
                      FunctionRef fn) override;
  std::unique_ptr<Interrupt> make_interrupt() override;
  void sleep(Seconds duration) override;
  std::unique_ptr<Monitor> make_monitor() override;

 protected:
  World& world_;
  Process& process_;

 private:
  void run_to_the_end(FunctionRef fn);
  Seconds straggle(ComputeKind kind, Seconds start, Seconds duration);
  // False if `unless` became true before its end.
  bool delay(Seconds from, Seconds requested, const std::atomic<bool>* unless = nullptr);

  const ClusterOptions& options_;
  double speed_ = 1;
};

// Errors: usage, a speed that is not above 0, or above 1: real time can be stretched only.
void check_speeds(const ClusterOptions& options, std::string_view cluster);

}  // namespace hetsgd::threads
