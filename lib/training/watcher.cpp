#include "training/watcher.hpp"

#include <fmt/format.h>

#include <chrono>

#include "core/host_clock.hpp"
#include "core/text.hpp"

namespace hetsgd {

Watcher::Watcher(const TrainOptions& options, const TrainHooks& hooks, Referee& referee,
                 Cluster& cluster)
    : options_(options), hooks_(hooks), referee_(referee), cluster_(cluster), thread_([this] {
        watch();
      }) {}

Watcher::~Watcher() { stop({}); }

void Watcher::begin() {
  const std::lock_guard lock(mutex_);
  begun_ = HostClock::now();
}

std::optional<Interrupted> Watcher::stop(std::chrono::milliseconds patience) {
  if (thread_.joinable()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, patience, [this] { return interrupted_.has_value(); });
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  return interrupted_;
}

void Watcher::interrupt_if_due(double host_s) {
  const int signal = hooks_.signal ? hooks_.signal->load() : 0;
  const bool late = options_.time_limit.count() > 0 && host_s > options_.time_limit.count();
  if (interrupted_ || (signal == 0 && !late)) return;
  interrupted_.emplace(
      signal, signal != 0 ? fmt::format("signal {}", signal)
                          : fmt::format("--time-limit {}", format_seconds(options_.time_limit)));
  cluster_.abort(std::make_exception_ptr(*interrupted_));
  referee_.interrupted(*interrupted_);
  wake_.notify_all();
}

void Watcher::watch() {
  const auto period = std::chrono::duration_cast<HostClock::duration>(options_.progress_every);
  auto next = HostClock::now() + period;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return done_; })) {
    const double host_s = begun_ ? seconds_since(*begun_) : 0;
    if (begun_) interrupt_if_due(host_s);
    if (hooks_.on_progress && HostClock::now() >= next) {
      hooks_.on_progress(referee_.progress(host_s));
      next = HostClock::now() + period;
    }
  }
}

}  // namespace hetsgd
