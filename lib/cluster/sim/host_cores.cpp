#include "cluster/sim/host_cores.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"

namespace hetsgd::sim {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// The part of its wait for which a waiting rank sleeps between two polls.
constexpr double kNapShare = 1.0 / 8;

}  // namespace

HostCores::HostCores(Engine& engine, int cores, HostWaits waits)
    : engine_(engine), cores_(cores), waits_(waits), scheduled_(kNever) {}

void HostCores::Task::start(HostCores& cores, double seconds, Engine::Handler done, void* object) {
  HETSGD_CHECK(cores.shared() && !runs());
  HETSGD_CHECK_GE(seconds, 0.0);
  cores_ = &cores;
  done_ = done;
  object_ = object;
  cores.advance();
  // Virtual ends start again from 0, so that they keep their precision in a long run.
  if (cores.tasks_.empty()) cores.virtual_ = 0;
  key_ = {cores.virtual_ + seconds, cores.started_++};
  cores.tasks_.emplace(key_, this);
  cores.settle();
}

void HostCores::Task::stop() {
  if (!runs()) return;
  HostCores& cores = *std::exchange(cores_, nullptr);
  cores.advance();
  cores.tasks_.erase(key_);
  if (!cores.engine_.tearing_down()) cores.settle();
}

void HostCores::add_polling(double processes) {
  if (!polls() || engine_.tearing_down()) return;
  advance();
  polling_ += processes;
  settle();
}

double HostCores::late(double waited, bool others) const {
  if (!shared()) return 0;
  if (others && polls()) return std::min(waited * kNapShare, waits_.poll_s) / 2;
  return waited > waits_.wake_s ? waits_.wake_s : 0;
}

void HostCores::advance() {
  virtual_ += (engine_.now() - at_) * rate_;
  at_ = engine_.now();
}

void HostCores::settle() {
  if (tasks_.empty()) return;
  const double cores = cores_, n = static_cast<double>(tasks_.size());
  const double left =
      std::max(cores - waits_.poll_core_share * polling_, cores * n / (n + polling_));
  rate_ = std::min(1.0, left / n);
  const double end = end_of_first();
  if (end >= scheduled_) return;
  scheduled_ = end;
  engine_.at(end, due, this);
}

double HostCores::end_of_first() const {
  return at_ + std::max(0.0, tasks_.begin()->first.first - virtual_) / rate_;
}

// An end that has moved to later is found by the event at the old one.
void HostCores::due(void* object) {
  auto& self = *static_cast<HostCores*>(object);
  if (self.engine_.now() != self.scheduled_) return;
  self.scheduled_ = kNever;
  if (self.tasks_.empty()) return;
  self.advance();
  if (self.end_of_first() > self.engine_.now()) return self.settle();
  Task& task = *self.tasks_.begin()->second;
  self.tasks_.erase(self.tasks_.begin());
  task.cores_ = nullptr;
  self.settle();
  task.done_(task.object_);
}

}  // namespace hetsgd::sim
