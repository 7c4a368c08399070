// Served tables: every worker has a companion, a process of its own, that answers requests to the
// worker's shard by messages, in the order of their arrival. No worker waits for another one's
// batch. So algorithms whose workers do not make all their steps together use sharded tables in
// this way. Lockstep algorithms may use it, too (--table-exchange served).
//
//   worker                                       companion of each owner
//     pull   what, rows; places          ---->   gather
//            the owner's columns         <----
//     (forward, backward, sums of rows)
//     push   what, learning rate; sums   ---->   row rule: one update by this batch alone
//            staleness                   <----
//     drop   what                        ---->   forgets the pull: nothing was learnt from it
//     close  what                        ---->   ends, when all workers have closed
//
// A worker has one batch between its pull and its push. The owner remembers the rows of the pull,
// so that places travel once. Every owner is asked, even for no row. A push returns when all owners
// have made their update, so a worker reads its own writes. The staleness is the number of updates
// of a shard by other workers between the pull of a batch and its push. The order of arrival
// decides which updates these are; in sim that is the order of virtual time.
//
// An owner does not add up gradients of different workers. Every push moves a row in full, by the
// learning rate of its batch, as on the parameter server of asgd. (Exchanged tables take the mean
// over all samples instead.) Under a capacity a push is one update of importance.
//
// In sim gathers and updates are charged beside the worker's step, as on cores of the serving host,
// one after the other on each companion.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cluster/endpoint.hpp"
#include "table/stages.hpp"

namespace hetsgd {

struct ServingRules {
  // The charge for a gather and for an update, from their real work.
  std::function<Work(const Work&)> gather, update;
  // Called by each push, on the worker's own process, once for each owner that it has updated.
  std::function<void(std::uint64_t)> staleness;
};

// A worker's client. Only its main process uses it.
class ServedTables {
 public:
  // Starts the companion. Every worker makes one before it pulls. Endpoint and stages must outlive
  // this object; their plan and shard must outlive the run.
  ServedTables(Endpoint& endpoint, TableStages& stages, const ServingRules& rules);

  // After TableStages::request(): on return the rows are here, for TableStages::spread().
  void pull(Lookup& lookup);
  // After TableStages::sum(): on return all owners have updated their rows. Adds to `counts` the
  // rows of the pull, and the rows that owners have evicted since their last answer.
  void push(Lookup& lookup, double learning_rate, LookupCounts& counts);
  // Replaces push() for a batch that is not learnt from.
  void drop();
  // Called once, after the last batch. Does not wait.
  void close();

 private:
  enum class What : std::uint32_t { pull, push, drop, close };
  struct Message {
    What what = What::pull;
    std::uint32_t rows = 0;    // pull
    double learning_rate = 0;  // push
  };
  struct Done {
    std::uint64_t staleness = 0;
    std::uint32_t on_device = 0;  // of the rows of the pull
    std::uint32_t evicted = 0;    // by this owner, since its last answer to any worker
  };
  class Companion;

  void tell(int to, const Message& message);
  void tell_all(const Message& message);
  // fn(owner, its part) for the following ranks first, and itself last.
  template <class Fn>
  void for_each_owner(const Fn& fn);

  Comm& comm_;
  TableStages& stages_;
  const ServingRules rules_;
  std::vector<OwnerPart> parts_;  // by owner, of the batch that was pulled
};

}  // namespace hetsgd
