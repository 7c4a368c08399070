// World: what all processes and groups of one simulated run share.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "cluster/ledger.hpp"
#include "cluster/sim/engine.hpp"
#include "cluster/sim/network.hpp"
#include "cluster/sim/payload.hpp"

namespace hetsgd::sim {

struct Group;
struct World;

// A message in flight or in a mailbox.
struct Message {
  std::shared_ptr<Group> group;     // keeps it alive while the message travels
  int source = 0, to = 0, tag = 0;  // ranks in the group
  double charged = 0;               // bytes on the wire
  double started = 0;               // when it went onto the sender's link
  Traffic kind = Traffic::control;
  Payload payload;
};

class SimInterrupt;

// The end of a computation that may be cut short.
struct Alarm {
  World* world = nullptr;
  SimInterrupt* of = nullptr;  // null: cut short, nobody waits any more
};

struct World {
  Engine& engine;
  Network network;
  // By rank: bytes are the worker's, whichever of its processes moves them.
  std::vector<Ledger*> workers = {};
  FreeList<Message> messages = {};
  FreeList<Alarm> alarms = {};

  void count_sent(int worker, Traffic kind, double bytes) {
    ledger(worker).bytes_sent[static_cast<std::size_t>(kind)] += whole(bytes);
  }
  void count_received(int worker, Traffic kind, double bytes) {
    ledger(worker).bytes_received[static_cast<std::size_t>(kind)] += whole(bytes);
  }

 private:
  Ledger& ledger(int worker) { return *workers[static_cast<std::size_t>(worker)]; }
  static std::uint64_t whole(double bytes) {
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
};

}  // namespace hetsgd::sim
