// World: what the threads of one run share: who may run, who is blocked, the clock, the fence, the
// abort.
//
// One mutex guards all coordination state of a run (mailboxes, rendezvous, service queues,
// monitors). A process that has nothing to do blocks on a condition variable of its own; large
// copies and reductions happen outside the mutex. So three things are exact:
//   - deadlock: the number of processes that run or have been signalled is a plain counter; at 0
//   nobody can ever
//     signal again;
//   - the fence: the world is stopped when every process is inside a blocking call, which it does
//   not leave before
//     the fence ends;
//   - the abort: a process is unwound only from a point at which nobody touches its memory.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/ledger.hpp"
#include "cluster/node.hpp"
#include "core/units.hpp"

namespace hetsgd::cuda {
class ExchangeMemory;
}

namespace hetsgd::threads {

// Ends a process whose run is aborted. Not a std::exception, so that algorithm code does not catch
// it by chance.
struct Unwind {};

// A reason to block. Lives on the blocked process's stack; all members are called under the world's
// mutex.
class Wait {
 public:
  virtual bool ready() const = 0;
  virtual std::string describe() const = 0;  // for the deadlock report
  // False: somebody is using memory of this process; an abort waits for ready().
  virtual bool interruptible() const { return true; }

 protected:
  ~Wait() = default;
};

// A Wait from lambdas: `Until wait([&] { return ...; }, [&] { return blocked_in_...; });`
template <class Ready, class Describe>
class Until final : public Wait {
 public:
  Until(Ready is_ready, Describe text) : ready_(is_ready), describe_(text) {}
  bool ready() const override { return ready_(); }
  std::string describe() const override { return std::string(describe_()); }

 private:
  Ready ready_;
  Describe describe_;
};

// Host memory that grows and never shrinks.
class Room {
 public:
  // Contents are undefined after growth.
  std::byte* reserve(std::size_t bytes) {
    if (bytes > capacity_) {
      data_.reset();
      data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      capacity_ = bytes;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t capacity_ = 0;
};

// Something that happens outside of this operating-system process and announces itself to nobody: a
// message of another rank. Its waiter asks again and again. All members but describe() are called
// by the waiting thread, without the mutex.
class Poll {
 public:
  virtual bool done() = 0;
  // The run is aborted: returns when nobody outside touches memory of this process any more.
  virtual void cancel() = 0;
  virtual std::string describe() const = 0;
  // The other side is there, and bytes are on their way.
  virtual bool transfers() const { return false; }

 protected:
  ~Poll() = default;
};

enum class ProcessKind { worker, companion, service };

// A thread of the run.
struct Process {
  std::string name;  // blocking.hpp
  ProcessKind kind = ProcessKind::worker;
  int rank = 0;
  Process* parent = nullptr;       // of a companion: its worker
  std::unique_ptr<Device> device;  // made by its own thread; null for services
  std::string device_text;         // WorkerReport.device
  std::array<Room, 2> staging;     // host_memory.hpp
  // Where MPI takes pointers to GPU memory and the device is a GPU (mpi/message_memory.hpp).
  std::shared_ptr<cuda::ExchangeMemory> exchange;
  Ledger ledger;          // written by its own thread only
  Seconds delay_owed{0};  // straggler delay asked for and not yet made; < 0: made in excess
  std::thread thread;

  // Guarded by the world's mutex.
  std::condition_variable woken;
  const Wait* wait = nullptr;           // null: not blocked
  const Poll* poll = nullptr;           // null: does not poll
  std::atomic<bool> signalled = false;  // wait may be ready; read without the mutex while spinning
  bool in_condition_wait = false;
  int live_companions = 0;
  Seconds since{0};  // blocked or ended since
  bool ended = false;
  bool in_fence = false;  // runs the function of a fence; its own thread's
};

class World {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // cores: how many threads can run at once; decides who may spin before it sleeps.
  explicit World(int cores);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The process of the calling thread. Checked: the thread belongs to a run.
  static Process& current();

  // --- life of processes -------------------------------------------------------------------------
  // Starts a thread that calls body(). What body throws aborts the run. Error(runtime): no thread
  // to be had.
  Process& start(std::unique_ptr<Process> process, std::function<void(Process&)> body);
  // Called by a worker when it is set up; returns when the clock runs.
  void await_start();
  // Called by the run's owner: starts the clock when `workers` processes are set up, returns when
  // all workers and companions have ended and every thread is joined, and rethrows what aborted the
  // run.
  void run(int workers) { run(workers, {}); }
  // What a run over several operating-system processes does besides. All may be empty.
  struct Hooks {
    // All are set up: returns the monotonic time, in ns, at which the clock starts.
    std::function<std::int64_t()> start;
    // All workers and companions have ended; services go on until it returns.
    std::function<void()> ended;
    // The run is aborted. Mutex held.
    std::function<void(std::exception_ptr)> aborted;
  };
  void run(int workers, Hooks hooks);
  // All processes in the order of their start. Only before run() and after it.
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }
  // Any thread. The first error wins.
  void abort(std::exception_ptr error);

  // --- blocking ----------------------------------------------------------------------------------
  // The begin of every call of the vocabulary: takes the mutex, waits while the world is stopped.
  Lock enter();
  // The end of one, and where no mutex is needed.
  void safepoint();
  // The mutex without a safepoint, for work that must be completed even when the run is aborted.
  Lock lock();
  // Returns when wait.ready(), with the mutex held. The time is added to ledger.*account unless
  // that is null.
  void block(Lock& lock, const Wait& wait, Seconds Ledger::*account = &Ledger::wait);
  // Makes a blocked process look at its wait again. Every change that can make a wait ready is
  // followed by this. Mutex held.
  void wake(Process& process);
  bool aborting() const { return aborting_; }
  bool finishing() const { return finishing_; }  // mutex held: only services are left

  // --- time --------------------------------------------------------------------------------------
  Seconds now() const;
  Seconds fenced() const;
  // Returns at `deadline` of the training clock. Counts as stopped for a fence, and goes on
  // sleeping after it. With `unless` it ends early, with false, soon after that has become true.
  bool sleep_until(Seconds deadline, const std::atomic<bool>* unless = nullptr);

  // --- fence -------------------------------------------------------------------------------------
  void fence(FunctionRef fn);
  // For a collective fence. stop_for, mutex held: from now on only `owner` may run; the clock stops
  // as soon as everybody else has stopped. The owner then calls run_fenced; others call park.
  void stop_for(Process& owner);
  void run_fenced(Lock& lock, FunctionRef fn);
  void park(Lock& lock);

  // --- other operating-system processes (mpi; world_outside.cpp) ---------------------------------
  // Who shares the cores with other ranks does not spin before it gives its core away.
  void set_crowded(bool crowded) { crowded_ = crowded; }
  // Returns when poll.done(). Counts as stopped for a fence, goes on polling during it, and returns
  // after it. Counts as running for the detection of deadlocks: others can always end it.
  void poll_until(Poll& poll, Seconds Ledger::*account = &Ledger::wait);
  // block() for what others decide.
  void block_for_others(Lock& lock, const Wait& wait);
  // A fence over all ranks, driven by a thread that is no process of this run. From now on nobody
  // may run; stopped_at() is the monotonic time in ns at which nobody did any more, or 0.
  void stop_from_outside();
  void stop_from_outside(Lock& lock);
  std::int64_t stopped_at();
  // The clock stands, since `at`; then goes on, since `at`. In between one process may be granted
  // the right to run: it is blocked, and calls run_granted.
  void freeze_from_outside(std::int64_t at);
  void grant(Process& process);  // mutex held
  void run_granted(Lock& lock, FunctionRef fn);
  void resume_from_outside(Lock& lock, std::int64_t at);
  static std::int64_t monotonic_ns();
  // Since when (training clock) nobody here can go on without others, and who waits for what.
  // Empty: somebody can, or the world is stopped, or the run is aborted.
  std::optional<Seconds> blocked_since(std::vector<BlockedProcess>& waiting);

 private:
  bool held(const Process& me) const { return fence_owner_ && fence_owner_ != &me; }
  void await_signal(Lock& lock, Process& me);
  void go_to_sleep(Process& me);
  [[noreturn]] void unwind(Lock& lock, Process& me);
  void freeze_if_stopped();
  void release_world() { release_world(monotonic_ns()); }
  void release_world(std::int64_t at);
  bool polled_to_the_end(Poll& poll, Process& me, std::int64_t begin);
  void fail_if_deadlocked();
  void wake_all();
  void abort_locked(std::exception_ptr error);
  void finish(Process& me);

  const int cores_;
  std::mutex mutex_;
  std::condition_variable owner_woken_;  // of the thread in run()
  std::vector<std::unique_ptr<Process>> processes_;
  int live_ = 0;      // workers and companions that have not ended
  int running_ = 0;   // processes that run, sleep for a time, or are signalled
  int at_large_ = 0;  // processes outside of blocking calls and sleeps
  int spinning_ = 0;
  int set_up_ = 0;
  bool started_ = false;
  bool finishing_ = false;
  std::atomic<bool> aborting_ = false;
  std::function<void(std::exception_ptr)> aborted_;
  std::exception_ptr error_;
  std::atomic<bool> attention_ = false;  // aborting or fencing: safepoints take the slow path

  Process* fence_owner_ = nullptr;
  std::atomic<std::int64_t> origin_ns_ = 0;  // monotonic time of clock 0
  std::atomic<std::int64_t> fenced_ns_ = 0;
  std::atomic<std::int64_t> frozen_at_ns_ = 0;  // 0: the clock runs

  Process outside_;                 // the owner of a fence that comes from outside
  std::int64_t stopped_at_ns_ = 0;  // by such a fence
  int waits_for_others_ = 0;        // processes in block_for_others
  bool crowded_ = false;
};

}  // namespace hetsgd::threads
