// The calls that are started on one communicator of this rank (pending.hpp): a helper makes them,
// one after the other, on a twin of the communicator. The helper belongs to the process that starts
// the first call. Calls of a twin meet those of other twins alone. So a started call and a blocking
// one of the same group cannot be taken for each other, whichever comes first on a rank.
//
// A call, between its caller and the helper:
//
//   start()              its turn                    make() has returned
//     |  open, queued ------------> open, being made -----------------------> complete
//     |        |                           |                                     |
//     |        +-------- abort ------------+--> left behind: the helper          v
//     v                                         has ended                    wait() or settle()
//   the caller computes                                                      returns
//
// A call is owned by its caller, and the queue refers to it. That is safe because the caller's
// Pending destroys it only after wait() has returned, or after settle() that follows a wait() that
// has thrown. Then the call is complete or the helper has ended.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/endpoint.hpp"
#include "cluster/realtime/world.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::realtime {

// Where helpers come from (ProcessKind): a run.
class HelperStarter {
 public:
  // Starts a helper of the same rank as `parent`, with an endpoint of its own for fn. Throws
  // Error(runtime) if no thread can be started.
  virtual Process& start_helper(Process& parent, const std::string& name,
                                std::function<void(Endpoint&)> fn, ProcessKind kind) = 0;

 protected:
  ~HelperStarter() = default;
};

class StartedCalls : NonCopyable {
 public:
  // Made by a process of the run, which becomes the parent of the helper. The helper ends after all
  // calls that were started before the destruction of this object; nobody waits for it here.
  StartedCalls(World& world, HelperStarter& helpers, std::shared_ptr<Comm> twin);
  ~StartedCalls();

  // Implements Comm::start_raw. Returns when all writes of the caller's device have arrived, since
  // another device reads the memory next.
  std::unique_ptr<PendingCall> start(const CollectiveRequest& request);

 private:
  struct Queue;
  class Call;
  // The body of the helper.
  static void make_all(Queue& queue, Comm& twin);

  // Shared with the helper and the calls; any of them may be the last to use it.
  const std::shared_ptr<Queue> queue_;
};

}  // namespace hetsgd::realtime
