#include "cluster/sim/comm.hpp"

namespace hetsgd::sim {

// Only misses count: a loop that finds a message each time takes it and so comes to an end.
bool SimComm::poll(int from, int tag) {
  if (group_->mailbox(rank_).find(from, tag) != nullptr) return true;
  group_->world.engine.count_idle_call("poll");
  return false;
}

void SimComm::barrier() {
  group_->rendezvous.attend(rank_, {.collective = Collective::barrier}, nullptr, nullptr);
}

// What a rank brings and what it gets travel in one struct on its stack: the rendezvous writes the
// new group into it when all have come (Rendezvous::form_groups). The traffic is `control`, the
// default.
std::unique_ptr<Comm> SimComm::split(int color, int key) {
  SplitPart part{{color, key}, nullptr, 0};
  group_->rendezvous.attend(rank_, {.collective = Collective::split}, nullptr, &part);
  if (!part.group) return nullptr;
  return std::make_unique<SimComm>(std::move(part.group), part.rank);
}

void SimComm::send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) {
  Process& self = group_->world.engine.current("send");
  Engine& engine = group_->world.engine;
  const double called = engine.now(), left = send_message(group_, rank_, to, tag, data, kind);
  if (left > called) engine.sleep_until(left);
  self.breakdown->communicate += Seconds(left - called);
  self.communicated(called, left);
}

// Nobody's time is counted: the link carries the message while the caller does something else.
void SimComm::post_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) {
  send_message(group_, rank_, to, tag, data, kind);
}

Envelope SimComm::receive_bytes(int from, int tag, std::span<std::byte> data) {
  return receive_message(*group_, rank_, from, tag, data);
}

// In place: the same memory is what the rank contributes and where the result goes.
void SimComm::all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                             Traffic kind) {
  group_->rendezvous.attend(rank_,
                            {.collective = Collective::all_reduce,
                             .count = count,
                             .element = element,
                             .op = op,
                             .kind = kind},
                            data, data);
}

// The root is checked here, by each rank, as the rendezvous only compares the ranks' calls.
void SimComm::broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) {
  check_rank(root, size());
  group_->rendezvous.attend(
      rank_, {.collective = Collective::broadcast, .count = bytes, .root = root, .kind = kind},
      data, data);
}

void SimComm::all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) {
  group_->rendezvous.attend(
      rank_, {.collective = Collective::all_gather, .count = bytes, .kind = kind}, mine, all);
}

// One rank's `make` makes the result for all, which is right as it must be the same everywhere; all
// ranks share the object. With P ranks this is P times less work and memory than each on its own.
std::shared_ptr<const void> SimComm::agree_raw(const void* mine, std::size_t bytes,
                                               const Maker& make, Traffic kind) {
  AgreePart part{&make, nullptr};
  group_->rendezvous.attend(rank_, {.collective = Collective::agree, .count = bytes, .kind = kind},
                            mine, &part);
  return std::move(part.made);
}

void SimComm::reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                                 Traffic kind) {
  group_->rendezvous.attend(rank_,
                            {.collective = Collective::reduce_scatter,
                             .count = count,
                             .element = element,
                             .op = op,
                             .kind = kind},
                            data, data);
}

// `mine` is the caller's, which is blocked. The width of an element stands in for the count, so
// that ranks which disagree on the type are found out; the lengths are compared pair by pair.
void SimComm::all_to_all_raw(const AllToAll& mine, Traffic kind) {
  group_->rendezvous.attend(
      rank_, {.collective = Collective::all_to_all, .count = mine.width, .kind = kind}, &mine,
      nullptr);
}

}  // namespace hetsgd::sim
