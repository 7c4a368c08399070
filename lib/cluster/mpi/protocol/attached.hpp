// Attached: the part of a run that a protocol acts on, while a run is on.
//
// A protocol lives as long as the program, a run for a part of that. The thread of the Control
// calls into the run through call(), and the run's owner detaches it with attach(nullptr) before it
// destroys it. The mutex is held during the call, so a detached target is never in use. Two things
// follow: a target must not attach or detach from inside of call(), and call() must not be nested,
// as the mutex is not recursive.
#pragma once

#include <mutex>

namespace hetsgd::mpi {

template <class T>
class Attached {
 public:
  // From now on calls go to `target`, which the caller owns; null: to nobody. Returns when nobody
  // acts on the last one any more.
  void attach(T* target) {
    const std::lock_guard guard(mutex_);
    target_ = target;
  }
  // Calls fn(target) under the mutex, unless there is none. What fn throws passes through.
  template <class Fn>
  void call(Fn fn) {
    const std::lock_guard guard(mutex_);
    if (target_) fn(*target_);
  }

 private:
  // Guards the pointer, and keeps the target alive while fn runs.
  std::mutex mutex_;
  T* target_ = nullptr;
};

}  // namespace hetsgd::mpi
