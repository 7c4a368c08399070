// DeadlockVote: no rank can tell alone that nobody will ever go on. When every process of a rank
// has waited for the peer timeout, the rank tells rank 0 which process waits for what. It takes its
// vote back when a process goes on. If the votes of all ranks are there at once, the run fails with
// an error that names all waits.
//
//             all processes blocked for `timeout`; kBlocked(text)
//    goes on -----------------------------------------------------> votes
//       ^                                                             | every 0.5 s, as long as
//       +------------------------------------------------------------ | all are blocked:
//             somebody goes on; kBlocked("")                          | kBlocked(text)
//                                                                     v
//                                                    rank 0 has p texts: fail_all(deadlock)
//
// Why the timeout: a message in flight makes its sender and its receiver look blocked, although the
// receiver will go on. Neither side sees the message, so the vote waits for longer than any message
// takes. A rank that runs services alone has no process that must go on, so it votes once the run
// has lasted for the timeout. Nobody votes during a pause, because all stand still on purpose.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/mpi/protocol/first_error.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

class DeadlockVote {
 public:
  // Returns for how long nobody of this rank can have gone on (on the training clock), and fills
  // `waiting` with the processes and their waits; nothing: some process can go on.
  using Blocked = std::function<std::optional<Seconds>(std::vector<BlockedProcess>& waiting)>;

  // Registers its handler. Both must outlive this object.
  DeadlockVote(Control& control, FirstError& errors);

  // All calls are made by the thread of `control`. reset(): before a run; rank 0 forgets the votes
  // of the last one.
  void reset();
  // Called often; it looks at `blocked` at most every 0.5 s, because a look takes the world's mutex
  // and makes texts. timeout: how long a rank's processes must have been blocked before it votes.
  void look(const Blocked& blocked, Seconds timeout);

 private:
  void on_blocked(int from, std::span<const std::byte> bytes);

  Control& control_;
  FirstError& errors_;
  // On rank 0: the waits of all processes, by rank; empty: some process of that rank goes on.
  std::vector<std::string> votes_;
  std::chrono::steady_clock::time_point looked_at_{};
  // The last message to rank 0 was a vote, which is to be taken back.
  bool voted_ = false;
  // The timeout of the last look, for the hint in the error.
  Seconds timeout_{0};
};

}  // namespace hetsgd::mpi
