// A watch over the start of a run. MPI_Init and the first calls after it return only when every rank
// has made them: a rank that is another program, or that prints its help and ends, leaves the others
// in them for ever. No error can be thrown there, so the watch ends the process itself, and the
// launcher then ends the rest.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/units.hpp"

namespace hetsgd::mpi {

// While it lives: when `limit` has passed, the lowest of this host's ranks that have come so far says
// who is missing, and the process ends with the exit code of a runtime error. The other ranks give
// the launcher time to end them, and end themselves where it does not. One that is made while
// another lives does nothing.
class StartWatch {
 public:
  explicit StartWatch(Seconds limit);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  // Returns false when the start is over before.
  bool wait(std::stop_token& stop, Seconds time);
  void watch(std::stop_token stop, Seconds limit);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace hetsgd::mpi
