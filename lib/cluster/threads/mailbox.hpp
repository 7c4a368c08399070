// Mailbox: the messages of one rank of one group that nobody has received yet, and the receives
// that wait for one.
//
// A message that meets a waiting receive is copied once, from the sender's memory into the
// receiver's. Any other message is copied into a buffer of the run's pool and out of it. All
// members of these classes are called under the world's mutex; large copies happen outside of it.
//
// A sender looks for a receive, a receiver for a message, and the one that comes second finds the
// other:
//
//   sender first     send: copied to a Message, push() ---> receive: pop(), copied out of it
//
//   receiver first   receive: posted, blocks
//                      open --(send: open_receive() finds it)--> filling --(copied)--> done
//                        |                                       not interruptible: the sender
//                        | a Message came by the long way        writes to the receiver's memory
//                        v
//                    pop(), as above
//
// Order: messages of one source with one tag are received in the order sent. So a message goes
// straight into a receive only where none that this receive would take is still in the mailbox.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/realtime/world.hpp"

namespace hetsgd::threads {

using namespace realtime;

// A message that nobody has received yet. Owned by the list that it is in, a mailbox's or the
// pool's. In between it belongs to the process that fills or empties it, without the mutex.
struct Message {
  int source = 0;
  int tag = 0;
  std::size_t bytes = 0;
  Traffic kind = Traffic::control;
  std::size_t capacity = 0;  // size of data, >= `bytes`: a power of two, the pool's size class
  std::unique_ptr<std::byte[]> data;
  std::unique_ptr<Message> next;  // in the list
};

// Buffers of past messages by size class (powers of two from 256 bytes), kept until the end of the
// run. It holds no more than were in flight at one time, so a loop with the same messages in every
// iteration soon allocates nothing.
class MessagePool {
 public:
  // A message with room for `bytes`, or null when there is none: then make() one, outside of the
  // mutex.
  std::unique_ptr<Message> take(std::size_t bytes);
  static std::unique_ptr<Message> make(std::size_t bytes);
  void give(std::unique_ptr<Message> message);
  ~MessagePool();

 private:
  std::array<std::unique_ptr<Message>, 64> free_;  // by the capacity's power of two
};

// A receive that waits. On the receiver's stack, which the mailbox refers to until it is withdrawn.
struct PostedReceive {
  // open: waits for a sender. filling: one writes to `data`, and the receiver must stay. done: the
  // message is here, and the receiver has been woken.
  enum class State { open, filling, done };
  int from = 0;
  int tag = 0;
  std::span<std::byte> data;
  Process* process = nullptr;
  State state = State::open;
  int source = 0;  // from here on set by the sender that fills it
  Traffic kind = Traffic::control;
  Seconds filled_from{0};  // the copy began

  bool matches(int source_rank, int message_tag) const {
    return tag == message_tag && (from == kAnySource || from == source_rank);
  }
};

// The messages are one list in the order of arrival, searched from its beginning: algorithms have
// few messages waiting at a time, and kAnySource needs that order across all sources.
class Mailbox {
 public:
  ~Mailbox();
  void push(std::unique_ptr<Message> message);
  // The earliest message with this tag from `from` (or kAnySource); null: none.
  const Message* find(int from, int tag) const;
  // Takes it out of the mailbox.
  std::unique_ptr<Message> pop(int from, int tag);

  // The first open receive that a message of `bytes` bytes completes; null: none, and the message
  // has to be pushed.
  PostedReceive* open_receive(int source, int tag, std::size_t bytes) const;
  // Wakes the receivers that a message just pushed may concern.
  void wake_receivers(World& world, int source, int tag) const;

  std::vector<PostedReceive*> posted;  // in any state, in the order of posting

 private:
  std::unique_ptr<Message> first_;
  Message* last_ = nullptr;  // good only if there is a first
};

}  // namespace hetsgd::threads
