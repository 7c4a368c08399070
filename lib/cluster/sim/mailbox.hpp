// Messages: how they travel, and where they wait for their receiver.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// One rank's messages in one group, in order of arrival (equal times: lowest source first).
class Mailbox {
 public:
  // The first message with this tag from this source (or kAnySource), or null. Does not take it.
  const Message* find(int from, int tag) const;
  // Takes that message; blocks the running process until it is there.
  Message* take(Engine& engine, int from, int tag);
  // A message has arrived: goes to the receiver that waits for it, or stays.
  void put(Engine& engine, Message* message);

 private:
  struct Receiver {
    int from, tag;
    Process* process;
    Message* message;
  };
  static bool matches(const Message& message, int from, int tag) {
    return message.tag == tag && (from == kAnySource || message.source == from);
  }

  std::deque<Message*> messages_;
  std::vector<Receiver*> receivers_;  // on their stacks, longest waiting first
};

// Sends `data`; returns when it has left the sender's link. A message to oneself takes no time and
// no link.
void send_message(const std::shared_ptr<Group>& group, int source, int to, int tag,
                  std::span<const std::byte> data, Traffic kind);

// Receives into `data`, whose size must be the message's (checked).
Envelope receive_message(Group& group, int rank, int from, int tag, std::span<std::byte> data);

}  // namespace hetsgd::sim
