// Messages: how they travel, and where they wait for their receiver.
//
//   sender              links (network.hpp)                     receiver's mailbox
//   send_message()      egress of the sender from `start`
//     | send: sleeps    head travels for a latency
//     v until it left   enter_link: ingress of the receiver
//   goes on             arrive --------------------------->  put(): to a blocked receiver, or kept
//                                                            take(): the first that matches
//
// The order that Comm promises (messages of one pair and tag arrive as sent) follows from the
// links: a sender's egress and a receiver's ingress serve one message after the other. Events of
// equal time and sender keep the order of their scheduling. On a shared bus the bus does the same,
// and enter_link is left out. A message is sent eagerly: there is no limit to what lies in a
// mailbox, and no sender waits for a receiver.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// One rank's messages in one group, in order of arrival (equal times: lowest source first, by the
// sender's rank in the run). Several processes of a rank may receive at once: each message goes to
// the one that has waited longest among those that it matches. There is never a message here that
// a blocked receiver waits for.
//
// Linear search: mailboxes are short, as a rank usually receives what it is sent before long.
class Mailbox {
 public:
  // The first message with this tag from this source (or kAnySource), or null. Does not take it.
  const Message* find(int from, int tag) const;
  // Takes that message; blocks the running process until it is there. The message is then the
  // caller's, to be given back to World::messages. Null only in a destructor during teardown.
  Message* take(World& world, int from, int tag);
  // A message has arrived: goes to the receiver that waits for it, or stays.
  void put(Engine& engine, Message* message);

 private:
  // A blocked take(); `message` is the answer.
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

// Sends a copy of `data` and returns at once. Returns when it has left the sender's link, which is
// not later than its arrival. A message to oneself takes no time and no link. Ranks are those of
// the group. Throws CheckFailure for a rank that is not in the group or a tag below 0. Does nothing
// while the run is torn down.
double send_message(const std::shared_ptr<Group>& group, int source, int to, int tag,
                    std::span<const std::byte> data, Traffic kind);

// Receives into `data`, whose size must be the message's (checked). Blocked time before the message
// enters its link is the sender's lateness (wait); the rest is transfer (communicate). So the
// breakdown tells a slow peer from a slow network.
Envelope receive_message(Group& group, int rank, int from, int tag, std::span<std::byte> data);

}  // namespace hetsgd::sim
