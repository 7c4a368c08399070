// Check-ins: the collectives of this rank, and its exchanges with another rank. If workers are lost
// meanwhile, all members of such a call make it to the end, or none does. Only runs that lose
// workers count them. The calls of a segment:
//
//    come() by a process --> under way --- all others have come: its data move ---> over
//                               |
//                               | close(): workers are lost, nobody comes any more
//                               v
//                           undecided --- decide(): all members had come ---> goes on to its end
//                               +-------- decide(): one had not ------------> is left, and no
//                                                                             buffer was written
//
// A call waits until all its members have come before it writes to a buffer. The counts of calls
// that each rank has reached therefore decide which calls go on, the same on all ranks
// (FailureVote).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/mpi/protocol/failure_vote.hpp"
#include "cluster/realtime/world.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::mpi {

// Thread-safe. One per run.
class CheckIns {
 public:
  // The calling process has come to the next call of this kind on this rank. Returns its number,
  // from 1 on; empty: workers are lost, and the call is not made.
  std::optional<std::uint64_t> come(const CallKey& key, int members);
  bool goes_on(const CallKey& key, std::uint64_t number) const;
  // From now on nobody comes. Returns the calls that this rank has reached so far.
  std::vector<Calls> close();
  // Takes the calls that all their members have reached.
  void decide(const std::vector<Calls>& complete);
  bool is_decided() const;

 private:
  mutable std::mutex mutex_;  // guards all below
  std::map<CallKey, Calls> calls_;
  bool closed_ = false;
  std::optional<std::map<CallKey, std::uint64_t>> complete_;
};

// The calling process's part in such a call, on its stack. Its waits end when the call is left, and
// not by a loss.
class CheckIn final : public realtime::AgreedCall, NonCopyable {
 public:
  // A safepoint, and the last one before the end of the call. Null `check_ins`: no worker is ever
  // lost, and nothing is counted.
  CheckIn(CheckIns* check_ins, realtime::World& world, const CallKey& key, int members);
  ~CheckIn();
  bool goes_on() const override { return check_ins_->goes_on(key_, number_); }

 private:
  CheckIns* const check_ins_;
  const CallKey key_;
  std::uint64_t number_ = 0;
};

}  // namespace hetsgd::mpi
