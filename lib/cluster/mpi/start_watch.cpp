#include "cluster/mpi/start_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cluster/mpi/siblings.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"

namespace hetsgd::mpi {
namespace {

// So long the launcher has to end the other ranks when the first one has ended.
constexpr Seconds kLauncherTime{3};
// A wait of more than this overflows the clock.
constexpr Seconds kLongest{1e8};

std::atomic<bool> watching{false};

}  // namespace

StartWatch::StartWatch(Seconds limit) {
  if (watching.exchange(true)) return;
  thread_ = std::jthread([this, limit](std::stop_token stop) { watch(std::move(stop), limit); });
  // The other ranks of this host read it: who has this thread has come.
  pthread_setname_np(thread_.native_handle(), kStartMark);
}

StartWatch::~StartWatch() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  watching = false;
}

bool StartWatch::wait(std::stop_token& stop, Seconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, std::min(time, kLongest), [] { return false; });
  return !stop.stop_requested();
}

void StartWatch::watch(std::stop_token stop, Seconds limit) {
  if (!wait(stop, limit)) return;
  const StartState state = state_of_start();
  if (!state.is_first && !wait(stop, kLauncherTime)) return;
  start_talking(detect_terminal());  // nobody else says it
  talk(
      TalkLevel::error,
      fmt::format("not all ranks have come within {} of the start: {}\nhint: every rank has to run "
                  "the same command; --start-timeout sets the time that is waited",
                  format_seconds(limit), state.missing));
  _exit(static_cast<int>(ExitCode::runtime));
}

}  // namespace hetsgd::mpi
