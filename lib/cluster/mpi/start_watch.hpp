// StartWatch: a watch over the start of a run. MPI_Init and the first calls after it return only
// when every rank has made them. A rank that is another program, or that prints its help and ends,
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
#include <string>
#include <thread>

#include "core/non_copyable.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

// The other ranks of this host, as the system shows them: before MPI is initialised, and where it
// never is, nothing else tells what they are.
//
// A process belongs to the same job if its environment has the same values of the launcher's
// variables, and its rank stands there too. The name of one of its threads shows whether it has
// come to the start. Any process of the same user can read that name, and no file or socket is left
// to be cleaned up.

// A rank that has come to the start shows it to the others of its host by a thread of this name. At
// most 15 characters, because the kernel keeps no more.
inline constexpr char kStartMark[] = "hetsgd-start";

// The result of one look at this host. Other hosts are out of sight.
struct StartState {
  // No lower rank of this host has come, so this one speaks for all of them.
  bool is_first = true;
  // "rank 1 runs `sleep 100`, rank 2 has ended".
  std::string missing;
};
// Reads /proc: a process that cannot be read does not count as one of the job. Never throws for a
// process that ends during the look.
StartState state_of_start();

// While it lives: when `limit` has passed, the lowest of this host's ranks that have come so far
// says which ranks are missing. The process ends with the exit code of a runtime error. The other
// ranks give the launcher time to end them, and end themselves where it does not. Only one is at
// work in a process: one that is made while another lives does nothing.
class StartWatch : NonCopyable {
 public:
  // Starts the thread, whose name shows the other ranks of this host that this one has come.
  explicit StartWatch(Seconds limit);
  // Ends the watch and joins its thread. It does not wait for the limit.
  ~StartWatch();

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
