// SimMonitor: lock and condition between simulated processes. First come, first served.
#pragma once

#include <deque>
#include <vector>

#include "cluster/node.hpp"
#include "cluster/sim/engine.hpp"

namespace hetsgd::sim {

class SimMonitor final : public Monitor {
 public:
  explicit SimMonitor(Engine& engine) : engine_(engine) {}

  void lock() override;
  void unlock() override;
  void wait(const std::function<bool()>& ready, std::string_view what) override;
  void notify_all() override;

 private:
  void acquire(Process& self);
  void release();

  Engine& engine_;
  Process* owner_ = nullptr;
  std::deque<Process*> locking_;   // blocked in lock; unlock hands the lock to the first
  std::vector<Process*> waiting_;  // blocked in wait
};

}  // namespace hetsgd::sim
