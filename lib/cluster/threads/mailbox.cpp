#include "cluster/threads/mailbox.hpp"

#include <algorithm>
#include <bit>

namespace hetsgd::threads {

namespace {

constexpr std::size_t kSmallest = 256;

std::size_t capacity_of(std::size_t bytes) { return std::bit_ceil(std::max(bytes, kSmallest)); }

std::size_t size_class(std::size_t capacity) {
  return static_cast<std::size_t>(std::countr_zero(capacity));
}

bool matches(const Message& message, int from, int tag) {
  return message.tag == tag && (from == kAnySource || from == message.source);
}

// Frees a list without recursion, however long it is: the destructor of a unique_ptr would call
// that of the next one, a stack frame for each message.
void free_list(std::unique_ptr<Message> first) {
  while (first) first = std::move(first->next);
}

}  // namespace

// Takes the message that was given back last, which is most likely still in a cache.
std::unique_ptr<Message> MessagePool::take(std::size_t bytes) {
  auto& list = free_[size_class(capacity_of(bytes))];
  auto message = std::move(list);
  if (message) list = std::move(message->next);
  return message;
}

// The data are not initialised: the sender writes all of what the receiver reads.
std::unique_ptr<Message> MessagePool::make(std::size_t bytes) {
  auto message = std::make_unique<Message>();
  message->capacity = capacity_of(bytes);
  message->data = std::make_unique_for_overwrite<std::byte[]>(message->capacity);
  return message;
}

void MessagePool::give(std::unique_ptr<Message> message) {
  auto& list = free_[size_class(message->capacity)];
  message->next = std::move(list);
  list = std::move(message);
}

MessagePool::~MessagePool() {
  for (auto& list : free_) free_list(std::move(list));
}

Mailbox::~Mailbox() { free_list(std::move(first_)); }

void Mailbox::push(std::unique_ptr<Message> message) {
  Message* added = message.get();
  (first_ ? last_->next : first_) = std::move(message);
  last_ = added;
}

const Message* Mailbox::find(int from, int tag) const {
  const Message* message = first_.get();
  while (message && !matches(*message, from, tag)) message = message->next.get();
  return message;
}

// `link` is what owns the message at hand, so that taking it out is the same at the beginning and
// in the middle; `before` becomes the last one if it was.
std::unique_ptr<Message> Mailbox::pop(int from, int tag) {
  std::unique_ptr<Message>* link = &first_;
  Message* before = nullptr;
  while (*link && !matches(**link, from, tag)) {
    before = link->get();
    link = &before->next;
  }
  auto found = std::move(*link);
  if (!found) return found;
  *link = std::move(found->next);
  if (found.get() == last_) last_ = before;
  return found;
}

// Only the first receive that matches counts: a later one of another process must not get a message
// that this one has waited for longer.
PostedReceive* Mailbox::open_receive(int source, int tag, std::size_t bytes) const {
  for (PostedReceive* receive : posted) {
    if (receive->state != PostedReceive::State::open || !receive->matches(source, tag)) continue;
    // A wrong size is the receiver's to report; and what came earlier must not be overtaken. Both
    // go the long way.
    const bool direct = receive->data.size() == bytes && !find(receive->from, receive->tag);
    return direct ? receive : nullptr;
  }
  return nullptr;
}

// All of them, since it is not known which will run first; one that finds the message gone sleeps
// again.
void Mailbox::wake_receivers(World& world, int source, int tag) const {
  for (PostedReceive* receive : posted) {
    if (receive->matches(source, tag)) world.wake(*receive->process);
  }
}

}  // namespace hetsgd::threads
