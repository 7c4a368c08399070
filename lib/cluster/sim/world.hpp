// World: what all processes and groups of one simulated run share.
//
// Everything here belongs to the event loop's thread and lives as long as the run. Messages,
// transfers and alarms are passed to events as bare pointers and come back to their free lists when
// the event that ends them is handled; those whose event never comes (the run has ended) are freed
// with the world.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "cluster/sim/engine.hpp"
#include "cluster/sim/network.hpp"
#include "cluster/sim/payload.hpp"
#include "cluster/time_breakdown.hpp"

namespace hetsgd::sim {

struct Group;
struct World;

// A message in flight or in a mailbox.
//
//   taken (send_message) -> in flight -> in a mailbox -> given back (receive_message)
struct Message {
  std::shared_ptr<Group> group;     // keeps it alive while the message travels
  int source = 0, to = 0, tag = 0;  // ranks in the group
  double charged = 0;               // bytes on the wire
  double started = 0, sent = 0;     // when its first and last byte went onto the sender's link
  Traffic kind = Traffic::control;
  Payload payload;
};

class SimCancellationToken;

// The end of a computation that may be cut short. It lives until its event has been handled, which
// is later than the end of the computation where that is cut short: hence the pointer and not the
// token itself in the event.
struct Alarm {
  World* world = nullptr;
  SimCancellationToken* of = nullptr;  // null: cut short, nobody waits any more
};

struct World {
  Engine& engine;
  Network network;
  // By rank: bytes are the worker's, whichever of its processes moves them. (Times are each
  // process's own: Process::breakdown.) Those of the workers' endpoints; filled before the run
  // starts.
  std::vector<TimeBreakdown*> workers = {};
  FreeList<Message> messages = {};
  FreeList<Transfer> transfers = {};
  FreeList<Alarm> alarms = {};

  // `worker`: the rank in the run, not in a group. `bytes` as charged (Network::charged). Sent
  // bytes count when the call is made, received ones when they arrive: what is in flight when the
  // run ends was sent and not received.
  void count_sent(int worker, Traffic kind, double bytes) {
    breakdown(worker).bytes_sent[static_cast<std::size_t>(kind)] += whole(bytes);
  }
  void count_received(int worker, Traffic kind, double bytes) {
    breakdown(worker).bytes_received[static_cast<std::size_t>(kind)] += whole(bytes);
  }

 private:
  TimeBreakdown& breakdown(int worker) { return *workers[static_cast<std::size_t>(worker)]; }
  // Charges are not whole under --charge. Rounded each, so the sum may be off by half a byte per
  // call.
  static std::uint64_t whole(double bytes) {
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
};

}  // namespace hetsgd::sim
