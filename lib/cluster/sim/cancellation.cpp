#include "cluster/sim/cancellation.hpp"

#include <limits>
#include <utility>

#include "core/error.hpp"

namespace hetsgd::sim {

// sleeper_ is cleared here and not by the sleeper: a second cancel() at this time must not wake it
// twice, and reset() before it runs must not put it back to sleep.
void SimCancellationToken::cancel() {
  cancelled_ = true;
  if (sleeper_ == nullptr || ends_at_ <= world_.engine.now()) return;  // it is complete
  forget_alarm();
  on_core_.stop();
  world_.engine.wake_at(world_.engine.now(), *std::exchange(sleeper_, nullptr));
}

bool SimCancellationToken::sleep_until(double time, HostTask& task) {
  Engine& engine = world_.engine;
  HETSGD_CHECK(sleeper_ == nullptr);  // one computation at a time
  sleeper_ = &engine.current("compute_cancellable");
  task_ = &task;
  ends_at_ = time;
  alarm_ = world_.alarms.take();
  *alarm_ = {&world_, this};
  engine.at(time, ring, alarm_);
  return sleep();
}

bool SimCancellationToken::run_on(HostCores& cores, double seconds, HostTask& task) {
  HETSGD_CHECK(sleeper_ == nullptr);
  sleeper_ = &world_.engine.current("compute_cancellable");
  task_ = &task;
  ends_at_ = std::numeric_limits<double>::infinity();  // not known
  on_core_.start(
      cores, seconds,
      [](void* object) {
        auto& self = *static_cast<SimCancellationToken*>(object);
        self.rang_ = true;
        self.world_.engine.pool().finish(*self.task_);
        self.world_.engine.resume(*std::exchange(self.sleeper_, nullptr));
      },
      this);
  return sleep();
}

bool SimCancellationToken::sleep() {
  rang_ = false;
  world_.engine.block([] { return "computes"; });
  return rang_;
}

// The alarm goes back first: resume() runs the process, which may begin its next computation and
// take it again.
void SimCancellationToken::ring(void* object) {
  auto& alarm = *static_cast<Alarm*>(object);
  SimCancellationToken* const of = alarm.of;
  alarm.world->alarms.give_back(&alarm);
  if (of == nullptr) return;
  of->alarm_ = nullptr;
  of->rang_ = true;
  // This is the event loop's stack: where no pool thread has begun it, the computation runs here,
  // and may need more stack than a fiber has.
  of->world_.engine.pool().finish(*of->task_);
  of->world_.engine.resume(*std::exchange(of->sleeper_, nullptr));
}

void SimCancellationToken::forget_alarm() {
  if (alarm_ != nullptr) alarm_->of = nullptr;
  alarm_ = nullptr;
}

}  // namespace hetsgd::sim
