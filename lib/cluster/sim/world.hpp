// World: what all processes and groups of one simulated run share.
//
// Everything here belongs to the event loop's thread and lives as long as the run. Messages,
// transfers and alarms are passed to events as bare pointers. They come back to their free lists
// when the event that ends them is handled; those whose event never comes (the run has ended) are
// freed with the world.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cluster/sim/engine.hpp"
#include "cluster/sim/host_cores.hpp"
#include "cluster/sim/network.hpp"
#include "cluster/worker_account.hpp"
#include "core/rank_index.hpp"
#include "core/units.hpp"

namespace hetsgd::sim {

// Bytes in flight, and a free list of the objects that carry them. Small messages allocate nothing
// once the run is warm. Large buffers are freed as soon as they are delivered. Both matter with ten
// thousand workers: the allocator would be called for every token, and one round of models that
// stay allocated would be a second copy of all replicas.
//
// Not thread-safe: all of it belongs to the event loop's thread.

// A copy of the caller's bytes, which the caller may change when the call has returned. The content
// is aligned for any type (it comes from new[]), so floats can be read in place.
class Payload {
 public:
  // Replaces the content. The old buffer is used again where it is large enough.
  void assign(std::span<const std::byte> bytes) {
    if (bytes.size() > capacity_) {
      data_ = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
      capacity_ = bytes.size();
    }
    size_ = bytes.size();
    if (size_ > 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  // Delivered: keeps a small buffer for the next message, and frees a large one.
  void clear() {
    size_ = 0;
    if (capacity_ <= kKeepBytes) return;
    data_.reset();
    capacity_ = 0;
  }
  std::size_t size() const { return size_; }
  // Valid until the next assign() or clear().
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  static constexpr std::size_t kKeepBytes = 1024;
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Objects that are taken and given back; all are freed with the list, given back or not. An event
// can so refer to one by a bare pointer, and nothing leaks when it is never handled. A deque,
// because its elements do not move. The list is as long as the most objects that were ever in use
// at once.
template <class T>
class FreeList {
 public:
  // The object is as it was given back: the taker sets every field that it needs.
  T* take() {
    if (free_.empty()) return &all_.emplace_back();
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T* object) { free_.push_back(object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

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

// Bytes that a core copies while nobody waits for the end of it.
struct Copy {
  World* world = nullptr;
  HostCores::Task task{};
};

class SimCancellationToken;

// The end of a computation that may be cut short. It lives until its event has been handled, even
// if the computation is cut short before. Hence the event has the pointer and not the token itself.
struct Alarm {
  World* world = nullptr;
  SimCancellationToken* of = nullptr;  // null: cut short, nobody waits any more
};

struct World {
  Engine& engine;
  Network network;
  HostCores cores;
  // By worker: it computes on these cores, because its profile is a CPU's. Empty: none does.
  std::vector<bool> on_cores = {};
  // Time breakdowns of the workers' endpoints, by rank; filled before the run starts. Bytes are the
  // worker's, whichever of its processes moves them. (Times are each process's own:
  // Process::breakdown.)
  std::vector<TimeBreakdown*> workers = {};
  FreeList<Message> messages = {};
  FreeList<Transfer> transfers = {};
  FreeList<Alarm> alarms = {};
  FreeList<Copy> copies = {};

  bool computes_on_cores(int worker) const {
    return !on_cores.empty() && on_cores[static_cast<std::size_t>(worker)];
  }
  // A core is busy with a copy for so long from now on, where cores are shared.
  void copy(double seconds);

  // `worker`: the rank in the run, not in a group. `bytes` as charged (Network::charged). Sent
  // bytes count when the call is made, received ones when they arrive: what is in flight when the
  // run ends was sent and not received.
  void count_sent(int worker, Traffic kind, double bytes) {
    breakdown(worker).count(kind, whole(bytes), 0);
  }
  void count_received(int worker, Traffic kind, double bytes) {
    breakdown(worker).count(kind, 0, whole(bytes));
  }

 private:
  TimeBreakdown& breakdown(int worker) { return *workers[at(worker)]; }
  // Charges are not whole under --charge. Each is rounded, so the sum may be off by half a byte per
  // call.
  static std::uint64_t whole(double bytes) {
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
};

// A process that waits for other ranks or a service, as long as this lives.
class AwaitingOthers : NonCopyable {
 public:
  AwaitingOthers(World& world, Process& process) : world_(world), process_(process) {
    if (!world_.cores.shared()) return;
    process_.awaits_others = true;
    world_.cores.add_polling(1);
  }
  ~AwaitingOthers() {
    if (!world_.cores.shared()) return;
    process_.awaits_others = false;
    world_.cores.add_polling(-1);
  }

 private:
  World& world_;
  Process& process_;
};

inline void World::copy(double seconds) {
  if (!cores.shared() || seconds <= 0) return;
  Copy* const copy = copies.take();
  copy->world = this;
  copy->task.start(
      cores, seconds,
      [](void* object) {
        auto* const ended = static_cast<Copy*>(object);
        ended->world->copies.give_back(ended);
      },
      copy);
}

}  // namespace hetsgd::sim
