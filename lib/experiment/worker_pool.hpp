// A pool of processes that carry out runs side by side. Each run is a process forked from this one
// after the data were read, so that all share the data's pages. The damage of a broken run ends
// with its process, and a run can be killed.
//
// The calling process has one thread while it forks. A child ends when its parent ends for any
// reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/host.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"

namespace hetsgd {

// The task of a child: a function of this program, or a command.
struct WorkerTask {
  std::function<int()> run;          // returns the exit code; null: run `command`
  std::vector<std::string> command;  // program (found by PATH) and arguments
  std::string log;                   // file of its stdout and stderr
};

struct EndedWorker {
  std::size_t tag = 0;
  int exit_code = 0;  // 128 + the signal that killed it
  double wall_s = 0;
};

class WorkerPool : NonCopyable {
 public:
  WorkerPool();
  ~WorkerPool();  // kills running children

  // Starts a child. Throws Error(runtime) if no process can be created.
  void start(std::size_t tag, const WorkerTask& task);
  std::size_t running() const { return workers_.size(); }
  // The next child that has ended. Waits up to `most`, or until a signal arrives. None: no child
  // has ended.
  std::optional<EndedWorker> wait(Seconds most);
  // Asks all children to end, kills those that still run after a few seconds, and waits for all.
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

// The HETSGD_ variables of the environment, except those that name folders. They set options of
// `hetsgd train`, so runs of a pool must not see them.
std::vector<std::string> variables_of_options();

// The last error in a child's log; "" if it has none, or there is no log.
std::string last_error(const std::string& log);

}  // namespace hetsgd
