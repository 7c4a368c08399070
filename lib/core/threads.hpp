// Threads of this process, where the system may refuse one. The limit of processes of a user or of
// a container (ulimit -u, pids.max) counts threads, too.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {

// Starts a std::thread or std::jthread that runs `body`. `purpose` says what the thread is for.
// Throws Error(runtime) if the system starts no more threads.
template <class Thread, class Body>
Thread start_thread(std::string_view purpose, Body&& body) {
  try {
    return Thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw with_hint(
        runtime_failure("cannot start a thread for {}: {}", purpose, error.code().message()),
        "raise the limit of processes (ulimit -u), or use fewer workers and cores");
  }
}

// Starts up to `count` threads that run `body` beside the caller, for work that any number of
// threads can share. There are fewer if the system starts no more.
template <class Thread, class Body>
void start_helpers(std::vector<Thread>& helpers, std::size_t count, const Body& body) {
  helpers.reserve(count);
  try {
    while (helpers.size() < count) helpers.emplace_back(body);
  } catch (const std::system_error&) {
  }
}

}  // namespace hetsgd
