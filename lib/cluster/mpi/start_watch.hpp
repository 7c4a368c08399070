// StartWatch: a watch over the start of a run. MPI_Init and the first calls after it return only
// when every rank has made them: a rank that is another program, or that prints its help and ends,
// leaves the others in them for ever. No error can be thrown there, so the watch ends the process
// itself, and the launcher then ends the rest.
//
//                limit                    this rank is the first that came
//    watching ---------> looks at /proc -----------------------------------> says who is missing,
//       |                      |   another one is                  ^          _exit
//       | destroyed            +-----> gives the launcher time ----+
//       v                                 | destroyed     time is over
//      over <-----------------------------+
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/units.hpp"

namespace hetsgd::mpi {

// While it lives: when `limit` has passed, the lowest of this host's ranks that have come so far
// says who is missing, and the process ends with the exit code of a runtime error. The other ranks
// give the launcher time to end them, and end themselves where it does not. Only one is at work in
// a process: one that is made while another lives does nothing.
class StartWatch {
 public:
  // Starts the thread, whose name shows the other ranks of this host that this one has come.
  explicit StartWatch(Seconds limit);
  // Ends the watch and joins its thread. It does not wait for the limit.
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  // Sleeps for `time`. False: the start is over before that.
  bool wait(std::stop_token& stop, Seconds time);
  // The thread's function. It returns when the start is over, else it ends the process.
  void watch(std::stop_token stop, Seconds limit);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace hetsgd::mpi
