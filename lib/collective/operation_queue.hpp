// OperationQueue: the communication process of a worker. It makes operations that block (exchanges,
// all_reduces) one after the other, in the order of submission, while the worker computes.
//
//   main process    add(a)  add(b)  computes ...      wait(a)     wait(b)
//                     |       |                          ^           ^
//   companion         |======= a =======|======= b ======|...........|
//
// Comm::start does the same for one collective of the cluster's own; here an operation is any
// blocking code over messages and collectives, and all kinds keep one order. All ranks add the same
// operations in the same order, so that no two wait for each other. add() never blocks, and there
// is no limit: the caller bounds what is open by waiting.
//
// An operation owns what it works on (shared pointers in its closure), as the function of a
// background task does: when the run fails nobody waits for it.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "cluster/endpoint.hpp"
#include "cluster/pending.hpp"

namespace hetsgd {

class OperationQueue {
 public:
  // Runs on the companion, with its endpoint, and a Comm of all workers that only operations use.
  using Operation = std::function<void(Endpoint&, Comm&)>;

  // An operation that was added: shared by the queue and all that wait for it.
  struct Added {
    Operation run;  // empty when it is complete
    bool complete = false;
    CallTime time;  // then
  };
  using Ticket = std::shared_ptr<Added>;

  // Starts the background task `name`. Collective over endpoint.comm(): every worker makes its
  // queue at the same point of its collectives. Used by one process, the one of `endpoint`, which
  // outlives it.
  OperationQueue(Endpoint& endpoint, const std::string& name);

  Ticket add(Operation operation);
  // Returns when it is complete. Waiting again costs nothing, nor does a null ticket.
  CallTime wait(const Ticket& ticket);
  // The companion ends after what was added. Called once, after the last add(); without it the run
  // does not end. Not done by a destructor, as an exception that unwinds the worker ends the run.
  void close();

 private:
  struct Shared {
    explicit Shared(Endpoint& endpoint) : monitor(endpoint.make_monitor()) {}
    const std::unique_ptr<Monitor> monitor;  // guards all below, and Added
    std::deque<Ticket> open;                 // the first is being made
    bool ready = false, closed = false;
  };
  static void run_all(Shared& shared, Endpoint& endpoint);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace hetsgd
