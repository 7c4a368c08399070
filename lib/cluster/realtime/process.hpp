// Process: a thread of a run in real time, and its reasons to wait. (A process of the operating
// system is called a rank here; one rank has several of these.)
//
// A process waits in one of two ways. For a Wait somebody in this address space makes ready() true
// and wakes it. Until then it takes no time of any core, and the world knows that it is blocked. A
// Poll has to look again and again, as messages of other ranks wake nobody; for the detection of
// deadlocks in this address space it counts as running.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/endpoint.hpp"
#include "cluster/realtime/training_clock.hpp"
#include "cluster/worker_account.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"
#include "linalg/host_view.hpp"

namespace hetsgd::cuda {
class ExchangeMemory;
}

namespace hetsgd::realtime {

// One round of a loop that spins: it leaves the core's shared units to the other hardware thread,
// and keeps the loop from flooding the memory system with loads.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Ends a process whose run is aborted: it passes through the algorithm's frames, whose destructors
// run, and is caught at the top of the thread. Not a std::exception, so that algorithm code does
// not catch it by chance.
struct Unwind {};

// A reason to block. Lives on the blocked process's stack; all members are called under the world's
// mutex.
class Wait {
 public:
  // Must be cheap, as it is called at every wake-up, and must not block. Code that changes what it
  // reads calls World::wake().
  virtual bool ready() const = 0;
  virtual std::string describe() const = 0;  // for the deadlock report
  // False: somebody is using memory of this process; an abort waits for ready(). That must then
  // come true without any process starting a call, for after an abort none does.
  virtual bool interruptible() const { return true; }

 protected:
  ~Wait() = default;
};

// A Wait from lambdas: `Until wait([&] { return ...; }, [&] { return blocked_in_...; });`. A third
// one says whether it is interruptible.
template <class Ready, class Describe, class Interruptible = std::true_type>
class Until final : public Wait {
 public:
  Until(Ready is_ready, Describe text, Interruptible is_interruptible = {})
      : ready_(is_ready), describe_(text), interruptible_(is_interruptible) {}
  bool ready() const override { return ready_(); }
  std::string describe() const override { return std::string(describe_()); }
  bool interruptible() const override { return interruptible_(); }

 private:
  Ready ready_;
  Describe describe_;
  Interruptible interruptible_;
};

// Keeps an element in a list of those that wait, as long as this object lives: it is withdrawn
// however the wait ends. The mutex is held at both ends.
template <class List>
class Enlisted : NonCopyable {
 public:
  Enlisted(List& list, std::remove_pointer_t<typename List::value_type>& element)
      : list_(list), element_(&element) {
    list_.push_back(element_);
  }
  ~Enlisted() { std::erase(list_, element_); }

 private:
  List& list_;
  const typename List::value_type element_;
};

// Something that happens outside of this operating-system process and announces itself to nobody: a
// message of another rank. Its waiter asks again and again. All members but describe() are called
// by the waiting thread, without the mutex.
class Poll {
 public:
  // Looks once. After true it is not called again.
  virtual bool done() = 0;
  // The run is aborted: returns when nobody outside touches memory of this process any more. Called
  // at most once, in place of further looks. True: what it waited for has come after all.
  virtual bool cancel() = 0;
  virtual std::string describe() const = 0;
  // Workers are lost (Scheduler::losing()): the wait goes on, because the other side has begun what
  // neither may leave half done.
  virtual bool outlasts_loss() const { return false; }
  // A service waits for requests. It outlasts the workers of its own rank, since others may still
  // call it.
  virtual bool idles() const { return false; }
  // The other side is there, and bytes are in flight.
  virtual bool transfers() const { return false; }

 protected:
  ~Poll() = default;
};

// A call that all its members make to the end or none, if workers are lost meanwhile
// (mpi/check_ins.hpp). Any thread.
class AgreedCall {
 public:
  // While the members have not agreed: true.
  virtual bool goes_on() const = 0;

 protected:
  ~AgreedCall() = default;
};

// The role of a process in the run:
//   worker           runs the algorithm on its rank; the run's times are those of workers
//   background_task  a second process of a worker, started by the algorithm
//   started_calls    makes calls that another process has started (started_calls.hpp), and like a
//                    service ends when nobody is left to start any
//   service          handles requests; has no device and calls no Comm
// The two in the middle are helpers: another process of the same worker has started them.
enum class ProcessKind { worker, background_task, started_calls, service };
// The run lasts as long as one of these goes on.
inline bool keeps_run(ProcessKind kind) {
  return kind == ProcessKind::worker || kind == ProcessKind::background_task;
}

// A thread of the run. The world owns it from its start until the end of the run, longer than its
// thread lives. So reports and wake-ups may refer to processes that have ended.
struct Process {
  std::string name;  // blocking.hpp
  ProcessKind kind = ProcessKind::worker;
  int rank = 0;
  int number = 0;                      // among the processes of this address space, from 0 on
  Process* parent = nullptr;           // starter of a helper; else null
  std::unique_ptr<Device> device;      // made by its own thread; null for services
  std::string device_text;             // WorkerReport.device
  std::vector<int> pinned;             // pinned to these cores; empty: not pinned
  std::array<HostScratch, 2> staging;  // host_memory.hpp
  // Set where MPI takes pointers to GPU memory and the device is a GPU (mpi/message_memory.hpp).
  std::shared_ptr<cuda::ExchangeMemory> exchange;
  TimeBreakdown breakdown;  // written by its own thread only
  // The worker shares it with its background tasks; null until it has one. Processes that make
  // started calls (ProcessKind::started_calls) have none.
  std::shared_ptr<WorkerAccount> account;
  const TrainingClock* clock = nullptr;  // the world's clock
  const AgreedCall* agreed = nullptr;    // the process is in it; its own thread's
  Seconds delay_owed{0};  // straggler delay asked for and not yet made; < 0: made in excess
  // When it can begin to communicate, from a time on (Scenario::reachable). Null: at once.
  std::function<Seconds(Seconds now)> reachable = nullptr;
  std::thread thread;

  // Guarded by the world's mutex.
  std::condition_variable woken;  // only the process itself waits on it: notify_one suffices
  // The fields that a waker reads and writes lie in one cache line, with nothing that the process
  // writes while it runs.
  alignas(64) const Wait* wait = nullptr;  // null: not blocked
  const Poll* poll = nullptr;              // null: does not poll
  // wait may be ready. It is read without the mutex while spinning, only to decide when to take the
  // mutex, which orders everything else: so relaxed accesses are enough.
  std::atomic<bool> signalled = false;
  bool in_condition_wait = false;  // else it spins, and a wake-up saves the call of the kernel
  // Helpers whose parent this is. An unwound process waits for them.
  int live_helpers = 0;
  Seconds since{0};  // blocked or ended since
  bool ended = false;
  bool in_pause = false;  // runs the function of a pause; its own thread's

  // Adds a time that ends now to a share of the breakdown; compute and communicate also to the
  // worker's account. By its own thread.
  void spend(Seconds TimeBreakdown::*share, Seconds took) {
    breakdown.*share += took;
    if (!account || share == &TimeBreakdown::wait) return;
    const Seconds end = clock->now();
    share == &TimeBreakdown::compute ? account->computed(end - took, end)
                                     : account->communicated(end - took, end);
  }
  // The wait that the process is in, under the world's mutex. Nothing: it runs, sleeps until a
  // deadline or is about to run, and one such process is enough for the run not to be a deadlock. A
  // process that polls is listed, because this rank cannot say whether another rank will ever
  // answer (World::blocked_since).
  std::optional<BlockedProcess> blocked() const {
    if (poll) return BlockedProcess{name, poll->describe(), since};
    if (wait) {  // what it waits for may be there
      if (signalled.load(std::memory_order_relaxed)) return std::nullopt;
      return BlockedProcess{name, wait->describe(), since};
    }
    if (!ended) return std::nullopt;
    return BlockedProcess{name, std::string(kEnded), since};
  }
};

// The worker's account so far: called by its main process, or after its end.
inline TimeBreakdown account_of(const Process& worker) {
  return worker.account ? worker.account->of(worker.breakdown) : worker.breakdown;
}

}  // namespace hetsgd::realtime
