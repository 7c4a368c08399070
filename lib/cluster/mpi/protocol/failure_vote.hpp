// FailureVote: a segment of a run ends because workers have failed. No process dies: the rank of
// such a worker tells rank 0, and goes on to answer.
//
//   a rank                              rank 0
//   tell(detected)   --- kLost ------>  the first one counts; waits until no pause is on
//   lose(detected)   <-- kHalt -------  to all; from now on nobody is granted a pause
//                    --- kHalted ---->  the calls that the rank has reached
//   decide(complete) <-- kComplete ---  from all ranks: the calls that all members have reached
//
// A rank:
//
//             kHalt, and its clock runs            kComplete
//    trains ----------------------------> halted -----------> ends: calls that are complete go on
//                                                             to their end, all others are left
//
// Nobody begins a call after lose(), so the counts that a rank sends are its last. A call goes on
// on all its ranks or on none. Ranks without a worker in the segment halt, too, with no calls.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/process_group.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

// Calls that one set of ranks makes one after the other. Plain bytes.
struct CallKey {
  int group = 0;
  // Several groups have one number: a and b tell them apart. The collectives of a group: kind
  // kBlocking or kStarted, a its first rank in the world. Exchanges: kind the tag, a and b the two
  // ranks in the world, the lower first.
  static constexpr int kBlocking = -1, kStarted = -2;
  int kind = kBlocking, a = 0, b = 0;
  auto operator<=>(const CallKey&) const = default;
};
struct Calls {
  CallKey key;
  int members = 0;
  std::uint64_t count = 0;
};

// The current run of this rank. Called by the thread of the Control.
class VotingRun {
 public:
  // Workers are known to be lost since `detected`, on the training clock. Nobody begins a call any
  // more. Returns the calls that this rank has reached.
  virtual std::vector<Calls> lose(Seconds detected) = 0;
  // These calls go on to their end. All others are left.
  virtual void decide(const std::vector<Calls>& complete) = 0;

 protected:
  ~VotingRun() = default;
};

class FailureVote {
 public:
  explicit FailureVote(Control& control);

  void attach(VotingRun* run) { run_.attach(run); }
  // Any thread. The worker of this rank is lost, and since `detected` the others may know.
  void tell(Seconds detected) { send_values(control_, 0, kLost, detected); }

  // The rest is called by the thread of the Control. reset(): before a run.
  void reset();
  // Rank 0: a loss waits to be told to all, which needs that no pause is on.
  bool waits() const { return detected_.has_value() && !told_; }
  void tell_all();
  // kHalt has come. A rank halts as soon as its clock runs.
  bool must_halt() const { return halt_since_.has_value(); }
  void halt();

 private:
  void on_halted(const std::vector<Calls>& calls);

  Control& control_;
  Attached<VotingRun> run_;
  std::optional<Seconds> halt_since_;  // what kHalt has told, until this rank halts

  // On rank 0.
  std::optional<Seconds> detected_;
  bool told_ = false;
  int halted_ranks_ = 0;
  struct Common {
    int ranks = 0;  // that have come to a call
    Calls calls;    // count: the fewest of these ranks
  };
  std::map<CallKey, Common> common_;
};

}  // namespace hetsgd::mpi
