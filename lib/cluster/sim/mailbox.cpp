#include "cluster/sim/mailbox.hpp"

#include <algorithm>

#include "cluster/sim/comm.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {

const Message* Mailbox::find(int from, int tag) const {
  for (const Message* message : messages_) {
    if (matches(*message, from, tag)) return message;
  }
  return nullptr;
}

Message* Mailbox::take(World& world, int from, int tag) {
  Engine& engine = world.engine;
  const auto found = std::find_if(messages_.begin(), messages_.end(), [&](const Message* message) {
    return matches(*message, from, tag);
  });
  if (found != messages_.end()) {
    Message* message = *found;
    messages_.erase(found);
    return message;
  }
  // The receiver lies in this frame: put() fills it and takes it out of the list before this
  // process goes on. Only a torn down run leaves it in the list, and then nobody puts any more.
  Receiver self{from, tag, &engine.current("receive"), nullptr};
  receivers_.push_back(&self);
  const AwaitingOthers waiting(world, *self.process);
  engine.block([&] { return blocked_in_receive(from, tag); });
  return self.message;
}

// The message is handed over here and not when the receiver runs: between the two another process
// of the rank could take it, and the receiver would wake up in vain.
void Mailbox::put(Engine& engine, Message* message) {
  for (auto it = receivers_.begin(); it != receivers_.end(); ++it) {
    Receiver& receiver = **it;
    if (!matches(*message, receiver.from, receiver.tag)) continue;
    receiver.message = message;
    receivers_.erase(it);
    engine.wake(*receiver.process);
    return;
  }
  messages_.push_back(message);
}

namespace {

// The message's last byte is through the receiver's link.
void arrive(void* object) {
  auto* message = static_cast<Message*>(object);
  Group& group = *message->group;
  group.world.count_received(group.worker(message->to), message->kind, message->charged);
  group.mailbox(message->to).put(group.world.engine, message);
}

// The message's head is at the receiver's link. An event of its own, because the link serves
// messages in the order of their heads: at the time of sending it is not known which other message
// will be there first.
void enter_link(void* object) {
  auto* message = static_cast<Message*>(object);
  World& world = message->group->world;
  Engine& engine = world.engine;
  const int source = message->group->worker(message->source);
  const Network::Route route = world.network.route(source, message->group->worker(message->to));
  double through = route.in.pass(Direction::in, engine.now(), message->charged).end;
  // A faster link waits for the last byte from a slower one.
  if (route.in.bytes_per_s() > route.out.bytes_per_s()) {
    through = std::max(through, message->sent + route.latency);
  }
  engine.at_arrival(through, source, arrive, message);
}

}  // namespace

double send_message(const std::shared_ptr<Group>& group, int source, int to, int tag,
                    std::span<const std::byte> data, Traffic kind) {
  World& world = group->world;
  Engine& engine = world.engine;
  engine.begin_communication("send");
  check_rank(to, group->size());
  HETSGD_CHECK_GE(tag, 0);
  const double called = engine.now();
  if (engine.tearing_down()) return called;

  // The message comes from the free list: every field is set.
  Message* message = world.messages.take();
  message->group = group;
  message->source = source;
  message->to = to;
  message->tag = tag;
  message->kind = kind;
  message->started = engine.now();
  message->charged = 0;
  message->payload.assign(data);
  if (to == source) {
    group->mailbox(to).put(engine, message);
    return called;
  }
  // The links and the breakdown are the worker's, whichever group the message belongs to.
  const int worker = group->worker(source);
  message->charged = world.network.charged_parts(data.size(), 1, kind);
  const Network::Route route = world.network.route(worker, group->worker(to));
  const Link::Slot slot = route.out.pass(Direction::out, called, message->charged);
  message->started = slot.start;
  message->sent = slot.end;
  world.copy(message->charged / route.out.bytes_per_s());
  // The event is scheduled before the sender may sleep: the message's travel does not depend on
  // what becomes of it.
  if (&route.in == &route.out) {
    engine.at_arrival(slot.end + route.latency, worker, arrive, message);
  } else {
    engine.at_arrival(slot.start + route.latency, worker, enter_link, message);
  }
  world.count_sent(worker, kind, message->charged);
  return slot.end;
}

Envelope receive_message(Group& group, int rank, int from, int tag, std::span<std::byte> data) {
  World& world = group.world;
  Engine& engine = world.engine;
  Process& self = engine.begin_communication("receive");
  if (from != kAnySource) check_rank(from, group.size());
  const double called = engine.now();
  Message* message = group.mailbox(rank).take(world, from, tag);
  if (message == nullptr) return {from, 0};  // torn down, in a destructor

  const Envelope envelope{message->source, message->payload.size()};
  if (envelope.bytes != data.size()) {
    throw CheckFailure(
        fmt::format("rank {} receives {} bytes from {}, tag {}: the message has {} bytes", rank,
                    data.size(), envelope.source, tag, envelope.bytes));
  }
  if (!data.empty()) std::memcpy(data.data(), message->payload.bytes().data(), data.size());
  // A message that was in flight before the call has no lateness; a message to oneself has no
  // transfer.
  const double wait = std::clamp(message->started - called, 0.0, engine.now() - called);
  self.breakdown->wait += Seconds(wait);
  self.breakdown->communicate += Seconds(engine.now() - called - wait);
  self.communicated(called + wait, engine.now());
  message->payload.clear();
  message->group.reset();
  world.messages.give_back(message);
  return envelope;
}

}  // namespace hetsgd::sim
