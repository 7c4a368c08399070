// Endpoint: what one worker (or its background task) sees of the cluster that it runs on.
//
// An algorithm is blocking code over this vocabulary; it never learns which cluster it is on.
//
// Contract of compute (what makes `sim` exact and parallel): between the start of a compute and its
// completion, its function touches only buffers that nobody else touches. A worker that others read
// while it computes works on a snapshot, or takes what came in at its next step boundary.
//
// Processes: a worker has its main process, which runs the cluster's worker function, and as many
// background tasks as it starts. Each process has an Endpoint of its own and uses no other; a
// Monitor guards what they share. A process is a fiber in sim and a thread elsewhere, so code that
// is right under threads is right everywhere. Code that relies on fibers is not.
//
// When the run fails, every blocking call of the others throws a cluster-internal exception that
// is no std::exception. Code that catches everything must rethrow it. Destructors that run on the
// way may unlock a Monitor and end a Pending; another call would throw again in threads and mpi.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cluster/comm.hpp"
#include "cluster/pending.hpp"
#include "cluster/serialised_factory.hpp"
#include "cluster/service.hpp"
#include "cluster/worker_account.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// Which slowdowns a computation is subject to.
enum class ComputeKind {
  step,    // one batch: counts as an iteration; the straggler scenario slows it
  part,    // a further part of the last step: slowed like it, but without its extra delays
  stage,   // a pipeline stage beside its step: stated as charged, slowed by the speed only
  vector,  // merges, norms, copies: slowed by the worker's speed only
  // A copy between the memory of the device and the host's, which counts as communication. Only its
  // host_link_bytes are charged; they are stated as charged already, and nothing slows it.
  transfer,
};

// A reference to a callable that outlives the call that it is passed to, for example a lambda in
// the argument list. Not to be kept after that call. No allocation, unlike std::function.
class FunctionRef {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT: implicit, so that lambdas can be passed
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object) { (*static_cast<std::remove_reference_t<F>*>(object))(); }) {}
  void operator()() const { call_(object_); }

 private:
  void* object_;
  void (*call_)(void*);
};

// A computation on memory that other workers of this address space read and write meanwhile.
struct InPlaceComputation {
  FunctionRef in_place;  // all of it, on the shared memory itself
  // The same in three parts, for a cluster whose workers take turns:
  FunctionRef read;   // copies what it needs into private memory
  FunctionRef fn;     // computes there, as the function of compute()
  FunctionRef write;  // puts what it has changed into the shared memory
};

struct CallPoint;
struct MonitorNotes;
class ProcessNotes;

// Lock and condition between a worker's processes, or between workers of one address space (sim,
// threads). A call that blocks with the lock held is allowed, but keeps the others out. Not
// recursive. Meets BasicLockable: std::lock_guard<Monitor> and std::unique_lock<Monitor> work.
class Monitor {
 public:
  virtual ~Monitor() = default;
  void lock();
  void unlock();
  // Called with the lock held; returns with it held and ready() true. ready() is evaluated under
  // the lock, at once and after each notify_all; it must not block. `what` names the wait in a
  // deadlock report, and outlives the call.
  void wait(const std::function<bool()>& ready, std::string_view what);
  void notify_all();

 protected:
  // A cluster implements the calls of above, which note them (trace/noted_calls.cpp).
  virtual void lock_raw() = 0;
  virtual void unlock_raw() = 0;
  virtual void wait_raw(const std::function<bool()>& ready, std::string_view what) = 0;
  virtual void notify_all_raw() = 0;

 private:
  friend class Endpoint;
  std::shared_ptr<MonitorNotes> notes_;  // null: calls are not noted
};

// Cuts a computation of one process short from another process of the same worker: an answer that
// arrives while the worker trains on. One computation at a time waits for a token.
//
//   ready     --cancel()--> cancelled: what computes is cut, what would begin does not
//   cancelled --reset()---> ready:     the next computation begins
class CancellationToken {
 public:
  virtual ~CancellationToken() = default;
  // The token stays cancelled until reset().
  virtual void cancel() = 0;
  virtual void reset() = 0;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;  // in the view (segment.hpp)
  virtual int size() const = 0;
  virtual int id() const { return rank(); }  // in the run
  // The training clock: 0 at the start of run(), without pauses.
  virtual Seconds now() const = 0;

  virtual Device& device() = 0;
  // True: the device computes in the host's memory, which the workers of a process share: a CPU.
  // Else it has a memory of its own.
  virtual bool in_host_memory() { return !device().stages_copies(); }
  virtual Comm& comm() = 0;  // all workers

  // Runs `fn` on this worker's device, which its processes share. Takes the time of `work` on its
  // profile (sim) or as long as it takes (threads, mpi), then the straggler scenario's delay. An
  // exception of fn comes out here. fn makes no call of this vocabulary but device(): in sim it
  // runs on another thread, at another time.
  void compute(const Work& work, ComputeKind kind, FunctionRef fn) {
    compute_unless(nullptr, work, kind, fn);
  }
  // A computation on memory that others read and write meanwhile, which is no error here. In
  // threads and mpi it is compute() of in_place. In sim read() is called at its start and write()
  // at its end, in no time, and fn as the function of compute().
  void compute_in_place(const Work& work, ComputeKind kind, const InPlaceComputation& how);
  // The same as compute() until `token` is cancelled (also before): then it returns false at once,
  // and what fn wrote counts for nothing. A computation that ends at that very moment is complete.
  // In sim the cut is exact; in threads and mpi a kernel cannot be stopped: fn runs to its end, and
  // the delay is cut.
  bool compute_cancellable(CancellationToken& token, const Work& work, ComputeKind kind,
                           FunctionRef fn) {
    return compute_unless(&token, work, kind, fn);
  }
  virtual std::unique_ptr<CancellationToken> make_cancellation_token() = 0;
  void sleep(Seconds duration);

  // Starts another process of this worker, with an Endpoint of its own (same rank, own time
  // breakdown; what it computes and sends is in the worker's account). The run ends when all
  // processes have returned, so the algorithm must tell it to. `fn` is copied and kept until it has
  // returned.
  void background_task(std::string name, std::function<void(Endpoint&)> fn);
  std::unique_ptr<Monitor> make_monitor();

  // The port to the service `name`. The first call in a segment makes the service with `factory`:
  // one per segment, where the cluster runs services (beside rank 0, or in a rank of their own).
  // Its fields() are carried over from segment to segment. Every rank that uses it calls
  // open_service with the same name; its factory is ignored if the service exists.
  std::shared_ptr<ServicePort> open_service(const std::string& name, const ServiceFactory& factory);

  // A later segment of a run (segment.hpp): the set-up ends and the clock goes on. Every worker's
  // main process calls it once.
  void go_on();

  // --- off the clock -----------------------------------------------------------------------------
  // Stops the world, runs fn, and lets it go on; the clock does not see it. The others stop at
  // their next call of this vocabulary; a process that is blocked counts as stopped. In sim virtual
  // time simply does not move. No computation runs while fn runs, so it may read all memory of this
  // address space. It makes no call of the vocabulary that can block (sim refuses it).
  void while_paused(FunctionRef fn) { pause(false, fn); }
  // The same for algorithms whose workers all come to this point. Rank 0 runs fn when all are here
  // (sim: when rank 0 is here); the others wait off the clock. Collective.
  void while_paused_together(FunctionRef fn) { pause(true, fn); }

  // The times of this process.
  virtual TimeBreakdown& time_breakdown() = 0;
  // The times of the worker so far, with its background tasks. The main process asks for them.
  virtual TimeBreakdown account() { return time_breakdown(); }

  // --- records -----------------------------------------------------------------------------------
  // From now on the calls of this process are noted in a line of `trace`, and those of background
  // tasks that it starts in lines of theirs (trace/noted_calls.cpp). The clock and the results are
  // those of a run without a trace.
  void note_calls(Trace& trace);
  // The last step had so many samples, if calls are noted.
  void note_batch(std::uint64_t samples);

 protected:
  // A cluster implements the calls of above, which note them. token: null for compute(), for
  // which it returns true.
  virtual bool compute_raw(CancellationToken* token, const Work& work, ComputeKind kind,
                           FunctionRef fn) = 0;
  virtual void compute_in_place_raw(const Work& work, ComputeKind kind,
                                    const InPlaceComputation& how) {
    compute_raw(nullptr, work, kind, how.in_place);
  }
  virtual void sleep_raw(Seconds duration) = 0;
  virtual void background_task_raw(std::string name, std::function<void(Endpoint&)> fn) = 0;
  virtual std::unique_ptr<Monitor> make_monitor_raw() = 0;
  virtual std::shared_ptr<ServicePort> open_service_raw(const std::string& name,
                                                        const ServiceFactory& factory) = 0;
  virtual void go_on_raw() = 0;
  virtual void pause_raw(bool together, FunctionRef fn) = 0;

 private:
  bool compute_unless(CancellationToken* token, const Work& work, ComputeKind kind, FunctionRef fn);
  void pause(bool together, FunctionRef fn);
  void note_calls(Trace& trace, const std::string& background_task, const CallPoint& parent);

  std::shared_ptr<ProcessNotes> notes_;  // null: calls are not noted
};

// Opens service S; constructed once with args...: `auto server = serve<Server>(endpoint, "server",
// dim, lr);`. Every rank passes the same arguments: which rank's are used is not defined. Which of
// them can travel between processes: serialised_factory.hpp.
template <class S, class... Args>
ServiceClient<typename S::Request, typename S::Reply> serve(Endpoint& endpoint,
                                                            const std::string& name,
                                                            const Args&... args) {
  ServiceFactory factory{[&] { return std::make_unique<S>(args...); }};
  if constexpr (kSerialisable<Args...>)
    factory.serialise = [&] { return serialise_factory<S, Args...>(args...); };
  return ServiceClient<typename S::Request, typename S::Reply>(
      endpoint.open_service(name, factory));
}

// Whether the calling thread is inside the function of a computation (Endpoint::compute), which
// makes no call of the vocabulary. In sim it runs on another thread and at another time. Such a
// call could work elsewhere by chance, so it is refused everywhere.
class InComputation : NonCopyable {
 public:
  // From here to the end of the scope the calling thread is in a computation. Scopes do not nest,
  // because a computation that another one's function begins is refused before it comes here.
  InComputation() { now_ = true; }
  ~InComputation() { now_ = false; }

  static bool now() { return now_; }

 private:
  static inline thread_local constinit bool now_ = false;
};

}  // namespace hetsgd
