// Processes that carry out runs side by side. Each run is a process of its own, forked from this
// one after the data were read, so that all share their pages: what a run leaves behind or breaks
// ends with it, and it can be killed.
//
// The calling process has one thread while it forks. A child ends when its parent does, in whatever
// way.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/host_clock.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"

namespace hetsgd {

// The task of a child: a function of this program, or a command.
struct WorkerTask {
  std::function<int()> run;          // its exit code; null: `command`
  std::vector<std::string> command;  // found by PATH
  std::string log;                   // file of what it says on stdout and stderr
};

struct EndedWorker {
  std::size_t tag = 0;
  int exit_code = 0;  // 128 + the signal that killed it
  double wall_s = 0;
};

class WorkerPool : NonCopyable {
 public:
  WorkerPool();
  ~WorkerPool();  // kills what still runs

  // Errors: runtime (no process can be made).
  void start(std::size_t tag, const WorkerTask& task);
  std::size_t running() const { return workers_.size(); }
  // The next child that has ended, waiting so long at most, or until a signal comes. None: none
  // has.
  std::optional<EndedWorker> wait(Seconds most);
  // Asks all to end, kills those that have not after a few seconds, and waits for them.
  void stop();

 private:
  struct Worker {
    std::size_t tag = 0;
    pid_t process = 0;
    HostClock::time_point start;
  };
  std::optional<EndedWorker> reap();

  std::vector<Worker> workers_;
};

// The HETSGD_ variables of the environment but for those that name folders: they set options of
// `hetsgd train`, and no run of a pool sees them.
std::vector<std::string> variables_of_options();

// The last error in a child's log; "": none, or there is no log.
std::string last_error(const std::string& log);

}  // namespace hetsgd
