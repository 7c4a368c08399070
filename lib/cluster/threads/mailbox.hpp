// Mailbox: the messages of one rank of one group that nobody has received yet, and the receives
// that wait for one.
//
// A message that meets a waiting receive is copied once, from the sender's memory into the
// receiver's; any other is copied into a buffer of the run's pool and out of it. All members of
// these classes are called under the world's mutex; the copies happen outside of it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

struct Message {
  int source = 0;
  int tag = 0;
  std::size_t bytes = 0;
  Traffic kind = Traffic::control;
  std::size_t capacity = 0;
  std::unique_ptr<std::byte[]> data;
  std::unique_ptr<Message> next;
};

// Buffers of past messages by size class (powers of two from 256 bytes), kept until the end of the
// run.
class MessagePool {
 public:
  // A message with room for `bytes`, or null when there is none: then make() one, outside of the
  // mutex.
  std::unique_ptr<Message> take(std::size_t bytes);
  static std::unique_ptr<Message> make(std::size_t bytes);
  void give(std::unique_ptr<Message> message);
  ~MessagePool();

 private:
  std::array<std::unique_ptr<Message>, 64> free_;
};

// A receive that waits. On the receiver's stack.
struct PostedReceive {
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

class Mailbox {
 public:
  ~Mailbox();
  void push(std::unique_ptr<Message> message);
  // The earliest message with this tag from `from` (or kAnySource); null: none.
  const Message* find(int from, int tag) const;
  std::unique_ptr<Message> pop(int from, int tag);

  // The first open receive that a message of `bytes` bytes completes; null: none.
  PostedReceive* open_receive(int source, int tag, std::size_t bytes) const;
  void post(PostedReceive& receive) { posted_.push_back(&receive); }
  void withdraw(PostedReceive& receive) { std::erase(posted_, &receive); }
  // Wakes those whom a message just pushed may concern.
  void wake_receivers(World& world, int source, int tag) const;

 private:
  std::unique_ptr<Message> first_;
  Message* last_ = nullptr;
  std::vector<PostedReceive*> posted_;
};

}  // namespace hetsgd::threads
