// SIGINT and SIGTERM: the first one asks for an orderly end, the second one kills. SIGUSR1 asks for
// a checkpoint, and ends no command: a scheduler sends it to all steps of a job.
#pragma once

#include <atomic>
#include <csignal>

namespace hetsgd {

inline std::atomic<int> signal_received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not lock");

inline void handle_signal(int signal) {
  if (signal_received.exchange(signal) == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Installs the handlers. The value becomes the signal's number when one arrives.
inline const std::atomic<int>& catch_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    action.sa_handler = handle_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
  return signal_received;
}

// The number of signals SIGUSR1 so far.
inline std::atomic<int> checkpoint_signals{0};

// To be called before anything else.
inline void count_checkpoint_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { ++checkpoint_signals; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
}

inline int received_signal() { return signal_received.load(); }  // 0: none

}  // namespace hetsgd
