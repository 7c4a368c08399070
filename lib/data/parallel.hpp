// A loop over independent tasks on all cores, for work that is done once (loading, generating).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/threads.hpp"

namespace hetsgd {

// The number of threads that `requested` stands for: none means all cores.
inline int thread_count(std::optional<int> requested) {
  if (requested) return *requested;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Calls task(i) for every i in [0, count), each once, on up to `threads` threads, in no fixed
// order; fewer threads do it where the system starts no more. An exception stops what has not begun yet; of several, that of the smallest i is rethrown.
template <class Task>
void parallel_tasks(std::optional<int> threads, std::size_t count, Task&& task) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::vector<std::exception_ptr> errors(count);
  const auto work = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const std::size_t i = next.fetch_add(1);
      if (i >= count) return;
      try {
        task(i);
      } catch (...) {
        errors[i] = std::current_exception();
        failed.store(true, std::memory_order_relaxed);
      }
    }
  };
  HETSGD_CHECK_LT(0, thread_count(threads));
  const std::size_t helpers =
      std::min(count, static_cast<std::size_t>(thread_count(threads))) - (count > 0 ? 1 : 0);
  {
    std::vector<std::jthread> pool;
    start_helpers(pool, helpers, work);
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace hetsgd
