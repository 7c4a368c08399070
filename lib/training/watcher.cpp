#include "training/watcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/host.hpp"
#include "core/text.hpp"
#include "core/threads.hpp"
#include "training/training.hpp"

namespace hetsgd {

Watcher::Watcher(const TrainOptions& options, const TrainHooks& hooks, Interruption& interruption)
    : options_(options),
      hooks_(hooks),
      interruption_(interruption),
      thread_(start_thread<std::thread>("signals and the time limit", [this] { run(); })) {}

Watcher::~Watcher() { stop({}); }

void Watcher::watch(Referee& referee, Cluster& cluster) {
  const std::lock_guard lock(mutex_);
  referee_ = &referee;
  cluster_ = &cluster;
}

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

void Watcher::interrupt_if_due() {
  const int signal = hooks_.signal ? hooks_.signal->load() : 0;
  const double limit_s = options_.time_limit.count();
  const bool late = limit_s > 0 && seconds_since(made_) > limit_s;
  if (interrupted_ || (signal == 0 && !late)) return;
  interrupted_.emplace(
      signal, signal != 0 ? fmt::format("signal {}", signal)
                          : fmt::format("--time-limit {}", format_seconds(options_.time_limit)));
  interruption_.request(*interrupted_);
  if (cluster_ != nullptr) {
    cluster_->abort(std::make_exception_ptr(*interrupted_));
    referee_->interrupted(*interrupted_);
  }
  wake_.notify_all();
}

void Watcher::run() {
  const auto period = std::chrono::duration_cast<HostClock::duration>(options_.progress_every);
  auto next = HostClock::now() + period;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return done_; })) {
    interrupt_if_due();
    if (referee_ != nullptr && hooks_.on_progress && HostClock::now() >= next) {
      hooks_.on_progress(referee_->progress(begun_ ? seconds_since(*begun_) : 0));
      next = HostClock::now() + period;
    }
  }
}

double Progress::share_done() const {
  const double by_samples =
      max_samples ? static_cast<double>(samples_count) / static_cast<double>(max_samples) : 0;
  const double by_time = max_time.count() > 0 ? time / max_time : 0;
  return std::clamp(std::max(by_samples, by_time), 0.0, 1.0);
}

double Progress::samples_per_s() const {
  return time.count() > 0 ? static_cast<double>(samples_count) / time.count() : 0;
}

std::optional<Seconds> Progress::remaining() const {
  const double share = share_done(), own = share - share_before;
  if (own <= 0) return std::nullopt;
  const double under_way = measuring_s > 0 ? std::max(0.0, measurement_s - measuring_s) : 0;
  return Seconds(host_s * (1 - share) / own + under_way + measurements_left * measurement_s);
}

}  // namespace hetsgd
