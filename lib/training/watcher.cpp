#include "training/watcher.hpp"

#include <fmt/format.h>

#include <chrono>

#include "core/host_clock.hpp"
#include "core/text.hpp"

namespace hetsgd {

Watcher::Watcher(const TrainOptions& options, const TrainHooks& hooks, Driver& driver,
                 Cluster& cluster)
    : thread_([this, &options, &hooks, &driver, &cluster] {
        watch(options, hooks, driver, cluster);
      }) {}

Watcher::~Watcher() { stop({}); }

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

void Watcher::watch(const TrainOptions& options, const TrainHooks& hooks, Driver& driver,
                    Cluster& cluster) {
  const auto start = HostClock::now();
  const auto period = std::chrono::duration_cast<HostClock::duration>(options.progress_every);
  auto next = start + period;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return done_; })) {
    const int signal = hooks.signal ? hooks.signal->load() : 0;
    const bool late =
        options.time_limit.count() > 0 && seconds_since(start) > options.time_limit.count();
    if (!interrupted_ && (signal != 0 || late)) {
      interrupted_.emplace(
          signal, signal != 0 ? fmt::format("signal {}", signal)
                              : fmt::format("--time-limit {}", format_seconds(options.time_limit)));
      cluster.abort(std::make_exception_ptr(*interrupted_));
      driver.interrupted(*interrupted_);
      wake_.notify_all();
    }
    if (hooks.on_progress && HostClock::now() >= next) {
      hooks.on_progress(driver.progress(seconds_since(start)));
      next = HostClock::now() + period;
    }
  }
}

}  // namespace hetsgd
