// A loop over independent tasks on all cores, for work that is done once (loading, generating).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/threads.hpp"

namespace hetsgd {

// The number of threads for a request: none means all cores that this process may use.
inline int thread_count(std::optional<int> requested) {
  return requested.value_or(static_cast<int>(available_cores().size()));
}

// Calls task(i) for every i in [0, count), each once, on up to `threads` threads, in no fixed
// order. There are fewer threads if the system starts no more. An exception stops the tasks that
// have not begun; of several exceptions, that of the smallest i is rethrown.
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

// The number of tasks of parallel_rows(): one per thread, but no more than there are chunks.
inline std::uint64_t row_tasks(std::optional<int> threads, std::uint64_t rows,
                               std::uint64_t chunk) {
  return std::min<std::uint64_t>((rows + chunk - 1) / chunk,
                                 static_cast<std::uint64_t>(thread_count(threads)));
}

// Calls each(row, scratch) for every row below `rows`, each once, on up to `threads` threads. Each
// task makes its scratch once, with make(); chunks of `chunk` neighbouring rows are dealt out in
// turn.
template <class Make, class Each>
void parallel_rows(std::optional<int> threads, std::uint64_t rows, std::uint64_t chunk, Make&& make,
                   Each&& each) {
  const std::uint64_t tasks = row_tasks(threads, rows, chunk);
  parallel_tasks(threads, tasks, [&](std::size_t task) {
    auto scratch = make();
    for (std::uint64_t first = task * chunk; first < rows; first += tasks * chunk) {
      const std::uint64_t end = std::min(rows, first + chunk);
      for (std::uint64_t row = first; row < end; ++row) each(row, scratch);
    }
  });
}

// The same without scratch: calls each(row), chunk by chunk as threads become free.
template <class Each>
void parallel_rows(std::optional<int> threads, std::uint64_t rows, std::uint64_t chunk,
                   Each&& each) {
  parallel_tasks(threads, (rows + chunk - 1) / chunk, [&](std::size_t i) {
    const std::uint64_t end = std::min<std::uint64_t>(rows, (i + 1) * chunk);
    for (std::uint64_t row = i * chunk; row < end; ++row) each(row);
  });
}

}  // namespace hetsgd
