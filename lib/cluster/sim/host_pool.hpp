// HostPool: the real threads that do the simulated workers' mathematics.
//
// The event loop's thread submits a task when a computation starts in virtual time, and comes to
// finish it when it is due. Until then any pool thread may run it. A task that nobody has begun is
// run by finish() itself: with one host thread there is no other thread, and everything runs then.
// Results cannot depend on who ran a task when (contract of Node::compute), so neither on the host.
//
// An own pool and not oneTBB's: a task lies on the stack of the fiber that waits for it and must be
// withdrawn from the queue to be run, or forgotten, at a given moment. Nothing allocates.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "cluster/node.hpp"

namespace hetsgd::sim {

class HostPool;

// A function for the pool. Destroying it takes it back: out of the queue, or waits for its end.
class HostTask {
 public:
  explicit HostTask(FunctionRef fn) : fn_(fn) {}
  ~HostTask();
  HostTask(const HostTask&) = delete;
  HostTask& operator=(const HostTask&) = delete;

  // After finish(): what the function threw, or null.
  const std::exception_ptr& error() const { return error_; }

 private:
  friend class HostPool;
  enum class State { idle, queued, running, done };
  void run() noexcept;

  FunctionRef fn_;
  std::exception_ptr error_;
  HostPool* pool_ = nullptr;
  HostTask* previous_ = nullptr;  // in the queue
  HostTask* next_ = nullptr;
  State state_ = State::idle;  // guarded by the pool's mutex
};

class HostPool {
 public:
  // `threads` includes the caller's; 0: all cores.
  explicit HostPool(int threads);
  ~HostPool();  // the queue is empty by then
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // All of these: from the event loop's thread only.
  void submit(HostTask& task);
  // Returns when `task` has run; meanwhile this thread runs it, or other queued ones.
  void finish(HostTask& task);
  // Runs what is queued and waits for what runs.
  void finish_all();
  // Forgets what is queued and waits for what runs: nobody's buffers are touched afterwards.
  void cancel_all();

 private:
  friend class HostTask;
  void work();
  void link(HostTask& task);
  void unlink(HostTask& task);
  void run_unlocked(HostTask& task, std::unique_lock<std::mutex>& lock);
  void withdraw(HostTask& task);

  std::mutex mutex_;
  std::condition_variable submitted_;  // for the pool's threads
  std::condition_variable done_;       // for the event loop's thread
  HostTask* first_ = nullptr;          // oldest first
  HostTask* last_ = nullptr;
  int idle_ = 0;
  int running_ = 0;  // on pool threads
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hetsgd::sim
