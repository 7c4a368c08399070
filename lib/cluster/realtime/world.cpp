#include "cluster/realtime/world.hpp"

#include <utility>

#include "core/threads.hpp"

namespace hetsgd::realtime {

Process& World::start(std::unique_ptr<Process> process, std::function<void(Process&)> body) {
  const Lock guard = lock();
  Process& me = add(std::move(process));
  try {
    me.thread = start_thread<std::thread>(me.name, [this, &me, body = std::move(body)] {
      enter_process(me);
      try {
        body(me);
      } catch (const Unwind&) {
      } catch (...) {
        abort(std::current_exception());
      }
      finish(me);
    });
  } catch (const Error&) {
    take_back(me);
    throw;
  }
  return me;
}

void World::await_start() {
  Process& me = current();
  Lock guard = lock();
  ++set_up_;
  owner_woken_.notify_one();
  me.woken.wait(guard, [&] { return clock_begun() || aborting(); });
  if (aborting()) unwind(guard);
}

void World::run(int workers, Hooks hooks) {
  Lock guard = lock();
  aborted_ = std::move(hooks.aborted);
  if (aborting() && aborted_) aborted_(error_);  // it was before anybody could be told
  owner_woken_.wait(guard, [&] { return set_up_ == workers || aborting(); });
  std::int64_t origin = TrainingClock::monotonic_ns();
  if (hooks.start) {  // it waits for other ranks, which must not keep this world's mutex
    guard.unlock();
    origin = hooks.start();
    guard = lock();
  }
  start_clock(origin);
  owner_woken_.wait(guard, [&] { return live() == 0; });
  guard.unlock();
  if (hooks.ended) hooks.ended();
  // No new process can start now; services end by themselves.
  for (auto& process : all()) process->thread.join();
  if (error_) std::rethrow_exception(error_);
}

void World::finish(Process& me) {
  const Lock guard = lock();
  fail_if_caught(me);
  leave(me);
  if (keeps_run(me.kind) && live() == 0) {
    finishing_ = true;
    wake_all();
    owner_woken_.notify_one();
  }
  if (aborting()) wake_all();  // a process may wait for its end
  look();
}

void World::abort(std::exception_ptr error) {
  const Lock guard = lock();
  abort_locked(std::move(error));
}

bool World::lose(Seconds detected) {
  const Lock guard = lock();
  if (aborting() || losing()) return false;
  error_ = std::make_exception_ptr(LostWorkers{detected});
  begin_losing(detected);
  return true;
}

// A loss gives way to an error. After an abort without a loss only one error may still come: the
// exception of the process that unwinds, if that has caused the abort.
void World::abort_locked(std::exception_ptr error) {
  if (aborting() && !losing() && (unwound_ != current_or_null() || error_)) return;
  end_losing();
  error_ = std::move(error);
  stop_all();
  if (aborted_) aborted_(error_);
}

}  // namespace hetsgd::realtime
