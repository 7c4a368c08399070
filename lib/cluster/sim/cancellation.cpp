#include "cluster/sim/cancellation.hpp"

#include <utility>

#include "core/error.hpp"

namespace hetsgd::sim {

// sleeper_ is cleared here and not by the sleeper: a second cancel() at this time must not wake it
// twice, and reset() before it runs must not put it back to sleep.
void SimCancellationToken::cancel() {
  cancelled_ = true;
  if (sleeper_ == nullptr || ends_at_ <= world_.engine.now()) return;  // it is complete
  forget_alarm();
  world_.engine.wake(*std::exchange(sleeper_, nullptr));
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
  // Before block(): in a destructor during teardown that returns at once, and nothing has ended.
  rang_ = false;
  engine.block([] { return "computes"; });
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
  // On the event loop's stack: where no pool thread has begun it, the computation runs here, and
  // may need more stack than a fiber has.
  of->world_.engine.pool().finish(*of->task_);
  of->world_.engine.resume(*std::exchange(of->sleeper_, nullptr));
}

void SimCancellationToken::forget_alarm() {
  if (alarm_ != nullptr) alarm_->of = nullptr;
  alarm_ = nullptr;
}

}  // namespace hetsgd::sim
