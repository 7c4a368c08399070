// SimInterrupt: cuts a simulated computation short, exactly in virtual time.
#pragma once

#include "cluster/node.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

class SimInterrupt final : public Interrupt {
 public:
  explicit SimInterrupt(World& world) : world_(world) {}
  ~SimInterrupt() override { forget_alarm(); }

  void raise() override;
  void lower() override { raised_ = false; }
  bool raised() const { return raised_; }

  // Stops the running process until `time` (true), or until the interrupt is raised (false). At the
  // same time the end comes first, as raise() follows from an arrival.
  bool sleep_until(double time);

 private:
  static void ring(void* object);
  void forget_alarm();

  World& world_;
  bool raised_ = false;
  bool rang_ = false;  // the last sleep came to its end
  Process* sleeper_ = nullptr;
  Alarm* alarm_ = nullptr;  // its event is in the queue and cannot be taken out
};

}  // namespace hetsgd::sim
