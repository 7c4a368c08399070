#include "cluster/sim/interrupt.hpp"

#include <utility>

#include "core/error.hpp"

namespace hetsgd::sim {

void SimInterrupt::raise() {
  raised_ = true;
  if (sleeper_ == nullptr) return;
  forget_alarm();
  world_.engine.wake(*std::exchange(sleeper_, nullptr));
}

bool SimInterrupt::sleep_until(double time) {
  Engine& engine = world_.engine;
  HETSGD_CHECK(sleeper_ == nullptr);  // one computation at a time
  sleeper_ = &engine.current("compute_unless");
  alarm_ = world_.alarms.take();
  *alarm_ = {&world_, this};
  engine.at(time, ring, alarm_);
  rang_ = false;
  engine.block([] { return "computes"; });
  return rang_;
}

void SimInterrupt::ring(void* object) {
  auto& alarm = *static_cast<Alarm*>(object);
  SimInterrupt* const of = alarm.of;
  alarm.world->alarms.give_back(&alarm);
  if (of == nullptr) return;
  of->alarm_ = nullptr;
  of->rang_ = true;
  of->world_.engine.resume(*std::exchange(of->sleeper_, nullptr));
}

void SimInterrupt::forget_alarm() {
  if (alarm_ != nullptr) alarm_->of = nullptr;
  alarm_ = nullptr;
}

}  // namespace hetsgd::sim
