#include "cluster/mpi/start_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cluster/mpi/siblings.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "core/threads.hpp"

namespace hetsgd::mpi {
namespace {

// The launcher has so long to end the other ranks when the first one has ended itself.
constexpr Seconds kLauncherTime{3};
// A wait of more than this overflows the clock.
constexpr Seconds kLongest{1e8};

// One watch at a time: a process has one mark and one message.
std::atomic<bool> watching{false};

}  // namespace

StartWatch::StartWatch(Seconds limit) {
  if (watching.exchange(true)) return;
  try {
    thread_ = start_thread<std::jthread>(
        "--start-timeout", [this, limit](std::stop_token stop) { watch(std::move(stop), limit); });
  } catch (const Error&) {
    watching = false;
    throw;
  }
  // The other ranks of this host read it: a process that has this thread has come to the start.
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
  // Nothing but a request to stop ends it early.
  changed_.wait_for(lock, stop, std::min(time, kLongest), [] { return false; });
  return !stop.stop_requested();
}

void StartWatch::watch(std::stop_token stop, Seconds limit) {
  // Ranks that are not the first of their host leave the word to that one, and end themselves only
  // if the launcher has not done it by then.
  if (!wait(stop, limit)) return;
  const StartState state = state_of_start();
  if (!state.is_first && !wait(stop, kLauncherTime)) return;
  // Nobody else has started the log yet. exit() would not do: it can wait for the ranks that are
  // missing (Environment::leave).
  start_log(detect_terminal());
  log(LogLevel::error,
      fmt::format("not all ranks have come within {} of the start: {}\nhint: every rank has to run "
                  "the same command; --start-timeout sets the time that is waited",
                  format_seconds(limit), state.missing));
  _exit(static_cast<int>(ExitCode::runtime));
}

}  // namespace hetsgd::mpi
