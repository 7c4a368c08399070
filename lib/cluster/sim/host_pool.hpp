// HostPool: the real threads that do the simulated workers' mathematics.
//
//           submit()            a pool thread, or the event loop's        fn has ended
//   idle -------------> queued ------------------------------> running -------------> done
//     ^                   |       in finish() or finish_all()
//     +-------------------+
//       cancel_all(), or the task is destroyed: it never runs
//
// The event loop's thread submits a task when a computation starts in virtual time, and comes to
// finish it when it is due. Until then any pool thread may run it. A task that nobody has begun is
// run by finish() itself: with one host thread there is no other thread, and everything runs then.
// Results depend neither on the thread of a task nor on its time (contract of Endpoint::compute),
// so they do not depend on the host. A task that throws keeps its exception until the event loop
// asks for it at the due time. So an error, too, comes at the same point of virtual time on every
// host.
//
// One mutex guards the queue and all states. It is never held while a function runs.
//
// A pool of its own instead of oneTBB's: a task lies on the stack of the fiber that waits for it.
// It must be withdrawn from the queue to be run, or forgotten, at a given moment. Nothing
// allocates.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "cluster/endpoint.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::sim {

class HostPool;

// A function for the pool. Destroying it takes it back: out of the queue, or waits for its end. So
// it may lie on a fiber's stack, beside the buffers that the function uses. A fiber that is unwound
// cannot leave a thread behind that writes to them. Refers to `fn`, which outlives it. Created and
// destroyed by the event loop's thread (on its own stack or a fiber's).
class HostTask : NonCopyable {
 public:
  explicit HostTask(FunctionRef fn) : fn_(fn) {}
  ~HostTask();

  // After finish(): what the function threw, or null.
  const std::exception_ptr& error() const { return error_; }

 private:
  friend class HostPool;
  enum class State { idle, queued, running, done };
  // Runs the function, without the mutex.
  void run() noexcept;

  FunctionRef fn_;
  std::exception_ptr error_;  // written by the thread that runs it, read when it is done
  // Null before submit() and after finish(): the destructor has nothing to take back, and no lock
  // to take. Only the event loop's thread reads or writes it.
  HostPool* pool_ = nullptr;
  HostTask* previous_ = nullptr;  // in the queue
  HostTask* next_ = nullptr;
  State state_ = State::idle;  // guarded by the pool's mutex
};

class HostPool : NonCopyable {
 public:
  // `threads` includes the caller's; 0: all cores. There are fewer where the system starts no more.
  explicit HostPool(int threads);
  ~HostPool();  // the queue is empty by then

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // All of these: from the event loop's thread only.
  //
  // A task is submitted once, and not moved until it is done or destroyed.
  void submit(HostTask& task);
  // Returns when `task` has run; meanwhile this thread runs it, or other queued ones, on the stack
  // of the caller. Does not throw what the task threw: see HostTask::error().
  void finish(HostTask& task);
  // Runs what is queued and waits for what runs: before a pause, whose function may read what the
  // workers' computations write. The tasks' owners call finish() later all the same.
  void finish_all();
  // Forgets what is queued and waits for what runs: nobody's buffers are touched afterwards. The
  // teardown of a run.
  void cancel_all();

 private:
  friend class HostTask;
  void work();  // a pool thread, until stop_
  // The rest, but for withdraw(), with the mutex held.
  void link(HostTask& task);
  void unlink(HostTask& task);
  // Gives the mutex back while the function runs: the queue may be another one afterwards.
  void run_unlocked(HostTask& task, std::unique_lock<std::mutex>& lock);
  void withdraw(HostTask& task);

  std::mutex mutex_;
  std::condition_variable submitted_;  // for the pool's threads
  std::condition_variable done_;       // for the event loop's thread
  // The queue, a list through the tasks themselves: one can leave from the middle in O(1).
  HostTask* first_ = nullptr;  // oldest first
  HostTask* last_ = nullptr;
  int idle_ = 0;     // pool threads that wait for a task: with none, submit() notifies nobody
  int running_ = 0;  // on pool threads
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hetsgd::sim
