// An all_reduce that travels while its worker computes (paper 002, figure 8): a companion of every
// worker makes it on a group of its own.
//
// The sum is the same to the bit as without overlap; only the time differs.
//
// Under --record-steps event "all_reduce" {rank, start_s}, recorded at its end.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "algorithm/worker.hpp"

namespace hetsgd {

class BackgroundAllReduce {
 public:
  // Collective. Without `overlap` (or alone) no companion is made, and finish() does it all.
  BackgroundAllReduce(Worker& self, bool overlap) : state_(std::make_shared<State>()) {
    state_->x = self.vector();
    if (!overlap || self.size() == 1) return;
    state_->group = self.comm().split(0, self.rank());
    state_->monitor = self.make_monitor();
    self.companion("all_reduce", [state = state_](Worker& companion) { run(companion, *state); });
  }

  // The vector to be summed; nobody may touch it between start() and finish().
  Buffer& x() { return state_->x; }

  void start() {
    if (!state_->group) return;
    const Guard guard(*state_->monitor);
    ++state_->started;
    state_->monitor->notify_all();
  }

  // Returns when x is the sum over all workers.
  void finish(Worker& self) {
    if (state_->group) {
      const Guard guard(*state_->monitor);
      state_->monitor->wait([&] { return state_->finished == state_->started; },
                            "the all_reduce in the background");
    } else if (self.size() > 1) {
      const Seconds start = self.now();
      self.all_reduce(x(), Traffic::parameters);
      note(self, start);
    }
  }

  // After the last finish(): the companion ends.
  void close() {
    if (!state_->group) return;
    const Guard guard(*state_->monitor);
    state_->closed = true;
    state_->monitor->notify_all();
  }

 private:
  using Guard = std::lock_guard<Monitor>;

  // Shared with the companion, which may outlive the worker's own stack.
  struct State {
    Buffer x;
    std::unique_ptr<Comm> group;  // null: no companion
    std::unique_ptr<Monitor> monitor;
    std::int64_t started = 0, finished = 0;  // guarded by the monitor, as `closed`
    bool closed = false;
  };

  static void run(Worker& companion, State& state) {
    for (;;) {
      {
        const Guard guard(*state.monitor);
        state.monitor->wait([&] { return state.started > state.finished || state.closed; },
                            "the next vector");
        if (state.started == state.finished) return;
      }
      const Seconds start = companion.now();
      state.group->all_reduce(state.x.span(), ReduceOp::sum, Traffic::parameters);
      note(companion, start);
      const Guard guard(*state.monitor);
      ++state.finished;
      state.monitor->notify_all();
    }
  }

  static void note(Worker& worker, Seconds start) {
    if (!worker.plan().record_steps) return;
    worker.record({{"type", "all_reduce"}, {"rank", worker.rank()}, {"start_s", start.count()}});
  }

  std::shared_ptr<State> state_;
};

}  // namespace hetsgd
