// Transfer: a collective in progress on the links of its members.
//
// Alone it takes C = L + T: its latencies, and the time of its bytes on the slowest of its links
// (NetworkModel; no step is simulated). While it is in progress it takes the share f = T / C of the
// rate of that link, in both directions. On a link with a faster rate B its share is f B_min / B.
// It goes on at the speed
//
//   0                  while a message is on one of its links (link.hpp)
//   1 / max(1, load)   else, where load is the sum of the shares on the fullest of its links
//
// so that no link carries more than its rate and one that is shared is shared in proportion. Alone
// it ends at start + C exactly. Two like collectives that begin together both end at start + max(C,
// 2 T): while one waits for its latencies the bytes of the other pass. A barrier has no bytes and
// slows nobody down.
//
//   members 0, 1   |== 1 ==|== 1/2 ==|               three transfers without latencies: what the
//   members 1, 2           |== 1/2 ==|= 1 =|         first two share is the link of worker 1
//   members 3, 4   |===== 1 =====|
//
// A transfer that stands still for a message on one link keeps its shares of the others. It keeps
// its end for the case that nothing changes; a change moves the end:
//
//   a message until u      end += u - b, from b = max(now, end of the messages so far)
//   speed 1/s -> 1/s'      end = b + (end - b) s'/s
//
// A transfer takes O(1) per link of its own and transfer on it, a message O(1) per transfer on its
// link.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "cluster/sim/engine.hpp"
#include "cluster/sim/link.hpp"

namespace hetsgd::sim {

// A link that a group's collectives take, and its share of f: B_min / B.
struct Hop {
  Link* link;
  double share;
};

// Taken from and given back to World::transfers. An event that refers to it may come later than its
// end, so it lives as long as the world.
class Transfer {
 public:
  // Begins now, and takes `seconds` alone, with the share f. Calls done(object) in an event of its
  // own, when it has ended and has left its links. It may be given back from then on. `hops` and
  // `object` live until then.
  void begin(Engine& engine, std::span<const Hop> hops, double seconds, double share,
             Engine::Handler done, void* object);

 private:
  friend class Link;
  static void due(void* object);  // the event
  void hold_up(double until);
  void set_slowdown(double slowdown);
  void speed_up();  // one on its fullest link has left
  void schedule();
  void join();
  void leave();
  double resumes() const;  // b above

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Engine* engine_ = nullptr;
  std::span<const Hop> hops_;
  double share_ = 0;
  Engine::Handler done_ = nullptr;
  void* object_ = nullptr;
  double end_ = 0, held_until_ = 0;
  double slowdown_ = 1;        // s
  std::size_t fullest_ = 0;    // where s > 1: the hop whose load it is
  double scheduled_ = kNever;  // its event, never later than its end; others are void
};

}  // namespace hetsgd::sim
