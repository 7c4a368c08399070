#include "cluster/sim/host_pool.hpp"

#include <algorithm>

#include "cluster/endpoint.hpp"
#include "core/error.hpp"
#include "core/threads.hpp"

namespace hetsgd::sim {

void HostTask::run() noexcept {
  const InComputation in_computation;
  try {
    fn_();
  } catch (...) {
    error_ = std::current_exception();
  }
}

// Runs during the unwinding of a fiber, too. withdraw() may block the whole event loop until the
// function has ended, but never for virtual time.
HostTask::~HostTask() {
  if (pool_ != nullptr) pool_->withdraw(*this);
}

HostPool::HostPool(int threads) {
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  HETSGD_CHECK_GE(threads, 1);
  // The caller's thread counts as one: while it waits in finish() it works as well.
  start_helpers(threads_, static_cast<std::size_t>(threads) - 1, [this] { work(); });
}

HostPool::~HostPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  submitted_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void HostPool::link(HostTask& task) {
  task.previous_ = last_;
  task.next_ = nullptr;
  (last_ != nullptr ? last_->next_ : first_) = &task;
  last_ = &task;
  task.state_ = HostTask::State::queued;
}

// A thread that takes a task out of the queue is about to run it, hence the state; the callers that
// only forget it set it back to idle before they give the mutex back.
void HostPool::unlink(HostTask& task) {
  (task.previous_ != nullptr ? task.previous_->next_ : first_) = task.next_;
  (task.next_ != nullptr ? task.next_->previous_ : last_) = task.previous_;
  task.previous_ = task.next_ = nullptr;
  task.state_ = HostTask::State::running;
}

void HostPool::run_unlocked(HostTask& task, std::unique_lock<std::mutex>& lock) {
  unlink(task);
  lock.unlock();
  task.run();
  lock.lock();
  task.state_ = HostTask::State::done;
}

// Notified without the mutex, so that the woken thread does not run into it. idle_ is read under
// it: a thread that is about to sleep has counted itself before it gave the mutex back.
void HostPool::submit(HostTask& task) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    task.pool_ = this;
    link(task);
    wake = idle_ > 0;
  }
  if (wake) submitted_.notify_one();
}

void HostPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (first_ == nullptr && !stop_) {
      ++idle_;
      submitted_.wait(lock);
      --idle_;
    }
    if (first_ == nullptr) return;
    ++running_;
    run_unlocked(*first_, lock);
    --running_;
    // One is enough, as only the event loop's thread waits for this. From here on the task may be
    // gone: its owner destroys it once it is done.
    done_.notify_one();
  }
}

// The wanted task comes first. While a pool thread runs that, this one takes the oldest of the
// others rather than sleep: it is due next in most cases. It may so come back somewhat later than
// `task` is done, which costs host time only.
void HostPool::finish(HostTask& task) {
  std::unique_lock lock(mutex_);
  while (task.state_ != HostTask::State::done) {
    if (task.state_ == HostTask::State::queued) {
      run_unlocked(task, lock);
    } else if (first_ != nullptr) {
      run_unlocked(*first_, lock);
    } else {
      done_.wait(lock);
    }
  }
  task.pool_ = nullptr;  // its destructor needs no lock any more
}

void HostPool::finish_all() {
  std::unique_lock lock(mutex_);
  while (first_ != nullptr) run_unlocked(*first_, lock);
  done_.wait(lock, [this] { return running_ == 0; });
}

// A task that is cancelled is idle again, with pool_ set: its destructor finds nothing to wait for.
void HostPool::cancel_all() {
  std::unique_lock lock(mutex_);
  while (first_ != nullptr) {
    HostTask& task = *first_;
    unlink(task);
    task.state_ = HostTask::State::idle;
  }
  done_.wait(lock, [this] { return running_ == 0; });
}

void HostPool::withdraw(HostTask& task) {
  std::unique_lock lock(mutex_);
  if (task.state_ == HostTask::State::queued) {
    unlink(task);
    task.state_ = HostTask::State::idle;
  }
  done_.wait(lock, [&] { return task.state_ != HostTask::State::running; });
}

}  // namespace hetsgd::sim
