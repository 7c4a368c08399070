// EventQueue: the events of a simulation by (time, order), smallest first.
//
// A heap of its own instead of std::priority_queue: with four children per node, keys that compare
// without branches and siblings that share cache lines it is much faster (compare with sim_bench).
// The key is unique, so equal times are taken out in one order only; a heap alone promises none.
//
// push and pop take O(log n), top O(1). There is no removal from the middle: an event that has
// become void stays, and its handler finds out (Alarm in world.hpp). Nothing is freed before the
// end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsgd::sim {

// What happens at a time. `object` is the handler's, and not owned. 32 bytes: two in a cache line.
struct Event {
  std::uint64_t time;   // the bits of a double >= 0, which order as whole numbers
  std::uint64_t order;  // unique
  void (*handler)(void* object);
  void* object;

  double seconds() const { return std::bit_cast<double>(time); }
};

class EventQueue {
 public:
  // The places before the root stay unused; see kFirst.
  EventQueue() : heap_(kFirst) {}

  bool empty() const { return heap_.size() == kFirst; }

  // time >= 0, not NaN, not infinite (Engine checks): only the bits of such doubles order as whole
  // numbers do. order: unique among all events. The new event climbs as long as its parent is
  // later; the parents move down instead of being swapped.
  void push(double time, std::uint64_t order, void (*handler)(void*), void* object) {
    // + 0.0 turns -0.0 into 0.0.
    const Event event{std::bit_cast<std::uint64_t>(time + 0.0), order, handler, object};
    std::size_t at = heap_.size();
    heap_.push_back(event);
    while (at > kFirst) {
      const std::size_t parent = at / 4 + kFirst - 1;
      if (!before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  // The smallest; not for an empty queue.
  const Event& top() const { return heap_[kFirst]; }
  // Removes and returns the smallest; not for an empty queue.
  Event pop() {
    const Event smallest = heap_[kFirst];
    const Event last = heap_.back();
    heap_.pop_back();
    if (!empty()) sift_down(last);
    return smallest;
  }

 private:
  // The root stands at 3 and the children of i at 4 (i - 2) to 4 (i - 2) + 3: each family begins at
  // a multiple of 128 bytes, relative to the start. Four siblings so lie in two cache lines where
  // the heap is aligned, and in three at most.
  //
  //   index    0 1 2     3      4  5  6  7     8 .. 11      12 .. 15   ...
  //            unused   root   its children   those of 4   those of 5
  static constexpr std::size_t kFirst = 3;

  // Of bits and not of conditions (| and &, not || and &&): the outcome is random, and a branch
  // would be mispredicted half of the time.
  static bool before(const Event& a, const Event& b) {
    return (a.time < b.time) | ((a.time == b.time) & (a.order < b.order));
  }

  // Puts `last` in place of the root: the hole at the root moves down to the earliest child until
  // `last` fits into it. The four children of a full family are compared in pairs, whose two
  // results do not depend on each other; only the last family can be incomplete.
  void sift_down(const Event& last) {
    const std::size_t end = heap_.size();
    std::size_t at = kFirst;
    for (;;) {
      const std::size_t child = 4 * (at - kFirst + 1);
      if (child >= end) break;
      std::size_t least = child;
      if (child + 4 <= end) {
        const std::size_t left = child + before(heap_[child + 1], heap_[child]);
        const std::size_t right = child + 2 + before(heap_[child + 3], heap_[child + 2]);
        least = before(heap_[right], heap_[left]) ? right : left;
      } else {
        for (std::size_t i = child + 1; i < end; ++i)
          least = before(heap_[i], heap_[least]) ? i : least;
      }
      if (!before(heap_[least], last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
  }

  std::vector<Event> heap_;  // from kFirst on
};

}  // namespace hetsgd::sim
