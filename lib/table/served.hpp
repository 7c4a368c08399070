// Served tables: every worker has a companion, a process of its own, that answers for the worker's
// shard by messages, in the order in which they arrive. No worker waits for another one's batch, so
// this is how algorithms use sharded tables whose workers do not make all their steps together;
// lockstep ones may (--table-exchange served).
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
// A worker has one batch between its pull and its push. The owner keeps what the pull asked for, so
// that places travel once. Every owner is asked, also for no row. A push returns when all owners
// have made their update: a worker reads what it has written. What others write meanwhile is the
// staleness: the updates of a shard by others between the pull of a batch and its push. Which these
// are is decided by the order of arrival; in sim that is the order of virtual time.
//
// An owner adds no gradients of different workers: a row moves by every push in full, by the
// learning rate of its batch, as parameters on the server of asgd do. (Tables that are exchanged
// take the mean over all samples instead.) Under a capacity a push is one update of importance.
//
// In sim gathers and updates are charged beside the worker's step, as on cores of the host that
// serves, one after the other on each companion.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cluster/endpoint.hpp"
#include "table/tables.hpp"

namespace hetsgd {

struct ServingRules {
  // What a gather and an update are charged that are so much work.
  std::function<Work(const Work&)> look_up, update;
  // Told by each push, on the worker's own process, once for each owner that it has updated.
  std::function<void(std::uint64_t)> staleness;
};

// A worker's end. Used by its main process.
class ServedTables {
 public:
  // Starts the companion. Every worker makes one, before it pulls. Endpoint and tables outlive it;
  // plan and shard the run.
  ServedTables(Endpoint& endpoint, Tables& tables, const ServingRules& rules);

  // After Tables::request(): on return the rows are here, for Tables::spread().
  void pull(Lookup& lookup);
  // After Tables::sum(): on return all owners have updated their rows. Adds to `counts` what was
  // pulled, and the rows that owners have evicted since they last said so.
  void push(Lookup& lookup, double learning_rate, LookupCounts& counts);
  // In place of push().
  void drop();
  // After the last batch, once. Waits for nobody.
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
    std::uint32_t evicted = 0;    // by this owner, since its last answer to anybody
  };
  class Companion;

  void tell(int to, const Message& message);
  void tell_all(const Message& message);
  // The n-th rank that this one sends to: the next ones first, itself last.
  int nth(int n) const { return (comm_.rank() + 1 + n) % comm_.size(); }

  Comm& comm_;
  Tables& tables_;
  const ServingRules rules_;
  std::vector<OwnerPart> parts_;  // of the batch that was pulled
};

}  // namespace hetsgd
