// Node: what one worker (or its companion) sees of the cluster that it runs on.
//
// An algorithm is blocking code over this vocabulary; it never learns which cluster it is on.
//
// Contract of compute (what makes `sim` exact and parallel): between the start of a compute and its
// completion, its function touches only buffers that nobody else touches. A worker that others read
// while it computes works on a snapshot, or takes what came in at its next step boundary.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cluster/comm.hpp"
#include "cluster/ledger.hpp"
#include "cluster/service.hpp"
#include "cluster/service_recipe.hpp"
#include "core/units.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

enum class ComputeKind {
  step,    // one batch: counts as an iteration; the straggler scenario slows it
  vector,  // merges, norms, copies: slowed by the worker's speed only
};

// A reference to a callable that outlives the call that it is passed to. No allocation.
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

// Lock and condition between a worker's processes, or between workers of one address space (sim,
// threads).
// Meets Lockable's lock/unlock: std::lock_guard<Monitor> works.
class Monitor {
 public:
  virtual ~Monitor() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
  // Called with the lock held; returns with it held and ready() true. `what` names the wait in a
  // deadlock report.
  // ready() is evaluated under the lock, after each notify_all.
  virtual void wait(const std::function<bool()>& ready, std::string_view what) = 0;
  virtual void notify_all() = 0;
};

// Cuts a computation of one process short from another process of the same worker: an answer that
// arrives while the worker trains on.
class Interrupt {
 public:
  virtual ~Interrupt() = default;
  // Stays raised until lowered.
  virtual void raise() = 0;
  virtual void lower() = 0;
};

class Node {
 public:
  virtual ~Node() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The training clock: 0 at the start of run(), without fenced intervals.
  virtual Seconds now() const = 0;

  virtual Device& device() = 0;
  virtual Comm& comm() = 0;  // all workers

  // Runs `fn` on this worker's device; takes the time of `work` on its profile (sim) or as long as
  // it takes (threads, mpi), then the straggler scenario's delay. An exception of fn comes out
  // here.
  virtual void compute(const Work& work, ComputeKind kind, FunctionRef fn) = 0;
  // The same until `interrupt` is raised (also before): then it returns false at once, and what fn
  // wrote counts for nothing. A computation that ends at that very moment is complete. In sim the
  // cut is exact; in threads and mpi a kernel cannot be stopped: fn runs to its end, and the delay
  // is cut.
  virtual bool compute_unless(Interrupt& interrupt, const Work& work, ComputeKind kind,
                              FunctionRef fn) = 0;
  virtual std::unique_ptr<Interrupt> make_interrupt() = 0;
  virtual void sleep(Seconds duration) = 0;

  // Starts a second process of this worker, with a Node of its own (same rank, own ledger: its time
  // is not the worker's). The run ends when all processes have returned. `fn` is copied and kept.
  virtual void companion(std::string name, std::function<void(Node&)> fn) = 0;
  virtual std::unique_ptr<Monitor> make_monitor() = 0;

  // The port to the service `name`. The first call in the run makes the service with `factory` (one
  // per run,
  // beside rank 0); every rank that uses it calls open_service with the same name.
  virtual std::shared_ptr<ServicePort> open_service(
      const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory) = 0;

  // The same where a service may live in another process, which makes it by its recipe. Clusters
  // whose workers share memory need none; it is empty where the arguments do not travel.
  virtual std::shared_ptr<ServicePort> open_portable_service(
      const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory,
      const std::function<ServiceRecipe()>& recipe) {
    static_cast<void>(recipe);
    return open_service(name, factory);
  }

  // --- off the clock -----------------------------------------------------------------------------
  // Stops the world, runs fn, and lets it go on; the clock does not see it. The others stop at
  // their next call of this vocabulary; who is blocked counts as stopped. In sim virtual time
  // simply does not move.
  virtual void fence(FunctionRef fn) = 0;
  // The same for algorithms whose workers all come to this point: rank 0 runs fn when all are here
  // (sim: when rank 0 is here), the others wait off the clock. Collective.
  virtual void fence_together(FunctionRef fn) = 0;

  virtual Ledger& ledger() = 0;
};

// Opens service S; constructed once with args...: `auto server = serve<Server>(node, "server", dim,
// lr);` What of args travels between processes: service_recipe.hpp.
template <class S, class... Args>
ServiceClient<typename S::Request, typename S::Reply> serve(Node& node, const std::string& name,
                                                            const Args&... args) {
  std::function<ServiceRecipe()> recipe;
  if constexpr (kPortable<Args...>) recipe = [&] { return recipe_of<S, Args...>(args...); };
  return ServiceClient<typename S::Request, typename S::Reply>(node.open_portable_service(
      name, [&] { return std::make_unique<S>(args...); }, recipe));
}

}  // namespace hetsgd
