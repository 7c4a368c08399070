// The calls that are started on one group of simulated workers (pending.hpp): an event in virtual
// time at which a call is complete, and no process.
//
// Every rank numbers its calls in the order of starting; those with one number are one call and
// have one rendezvous. Rendezvous are opened by the first rank that starts a number, and only the
// oldest may move data, so the calls are made one after the other:
//
//   number      completed_    completed_ + 1   ...              largest that any rank has started
//   open_       [ front:      ][ waits for      ][ ... ][ back ]
//                 gathering       its turn
//                 or moving
//   when the front is complete: ended() takes it off, and the next one takes its turn
//
// A call goes on by itself, also while its caller computes; only wait() blocks, and only that time
// counts in the breakdown.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "cluster/pending.hpp"
#include "cluster/sim/rendezvous.hpp"

namespace hetsgd::sim {

// Part of its group, and on the event loop's thread as everything there.
class StartedCalls final : public CollectiveOrder {
 public:
  explicit StartedCalls(World& world) : world_(world) {}

  // As Comm::start_raw. `group`: the owner, which lives until the call is complete, as the call
  // shares it: the Comm that started it may go before.
  std::unique_ptr<PendingCall> start(const std::shared_ptr<Group>& group, int rank,
                                     const CollectiveRequest& request);

 private:
  class Call;
  bool may_begin(const Rendezvous& rendezvous) const override {
    return open_.front().get() == &rendezvous;
  }
  void ended() override;
  // Of the call `number` >= completed_, which is at most one beyond those that are open.
  Rendezvous& rendezvous_of(const Group& group, std::uint64_t number);

  World& world_;
  std::deque<std::unique_ptr<Rendezvous>> open_;   // the first may be on its way
  std::vector<std::unique_ptr<Rendezvous>> free_;  // to be used again
  std::uint64_t completed_ = 0;                    // calls of all ranks
  std::vector<std::uint64_t> started_;             // by rank
};

}  // namespace hetsgd::sim
