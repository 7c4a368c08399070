// SimCancellationToken: cuts a simulated computation short, exactly in virtual time.
//
// The computation is a sleep with an alarm at its end. Either the alarm rings, or the token is
// cancelled before. An event cannot leave the queue. So an alarm that is not needed any more loses
// its token, and returns to the free list when its time has come.
//
//              sleep_until(time)                the alarm rings: rang_, resume       (true)
//   nobody ------------------------> sleeping ------------------------------------> nobody
//   sleeps                              |        cancel(): forget the alarm, wake    (false)
//                                       +-----------------------------------------> nobody
//
// `cancelled_` is independent of that: it stays until reset(), and a computation that begins while
// it is set does not begin at all (SimEndpoint::compute_cancellable).
#pragma once

#include "cluster/endpoint.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

class SimCancellationToken final : public CancellationToken {
 public:
  explicit SimCancellationToken(World& world) : world_(world) {}
  // The alarm of a computation that was unwound with the run may still refer to it.
  ~SimCancellationToken() override { forget_alarm(); }

  // Called from another process or a handler. The sleeper goes on at this time, after what is
  // already due.
  void cancel() override;
  void reset() override { cancelled_ = false; }
  bool cancelled() const { return cancelled_; }

  // Stops the running process until `time`, when `task` is finished (true), or until the token is
  // cancelled (false). Where both come at the same time the end counts, in whatever order their
  // events are handled. One process at a time (checked).
  bool sleep_until(double time, HostTask& task);
  // The same until the task has had a core for so long.
  bool run_on(HostCores& cores, double seconds, HostTask& task);

 private:
  // The running process sleeps. The flag is cleared before block(): in a destructor during teardown
  // that returns at once, and nothing has ended.
  bool sleep();
  static void ring(void* object);  // an Alarm's event
  void forget_alarm();

  World& world_;
  bool cancelled_ = false;
  bool rang_ = false;  // the last sleep came to its end
  Process* sleeper_ = nullptr;
  HostTask* task_ = nullptr;  // the sleeper's
  double ends_at_ = 0;        // end of the sleep that goes on
  // Alarm of the sleep that goes on; owned by World::alarms. Its event is in the queue and cannot
  // be taken out, so the alarm outlives the sleep, and the token, too.
  Alarm* alarm_ = nullptr;
  HostCores::Task on_core_;  // in place of the alarm
};

}  // namespace hetsgd::sim
