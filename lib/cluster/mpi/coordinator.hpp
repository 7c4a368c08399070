// Coordinator: what the ranks of a run agree on beside the training: when it starts and ends, when
// all clocks pause, and which error ends it. Rank 0 decides; messages travel on the Channel. Each
// agreement is a protocol of its own (folder protocol/, one header each); here they are put
// together, in the order of a run:
//
//              begin()              set_up()                 end()            end_run()
//    no run ----------> beginning ----------> clock starts --------> ended -------------> no run
//                           |                      |                   ^
//                           |  an error            |  an error         | all threads have unwound;
//                           +--> failing <---------+                   | the others are waited for
//                                   +----------------------------------+ for a limited time
//
// and driven between the looks of the channel (tick()).
//
// Threads. The calls of one run come from its owner; handlers, on_failure, on_met and tick() run on
// the channel's thread. Mutexes are taken in this order, and none of them the other way round:
//
//    Attached (run, pause, losses, services) --> ServiceList, World --> FirstError --> Channel
//
// So a process that holds the world's mutex may fail the run or ask for a pause, and a handler may
// call into the run.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/mpi/channel.hpp"
#include "cluster/mpi/protocol/agreement.hpp"
#include "cluster/mpi/protocol/clock_pause.hpp"
#include "cluster/mpi/protocol/deadlock_vote.hpp"
#include "cluster/mpi/protocol/failure_vote.hpp"
#include "cluster/mpi/protocol/first_error.hpp"
#include "cluster/mpi/protocol/group_numbers.hpp"
#include "cluster/mpi/protocol/heartbeats.hpp"
#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/mpi/protocol/rank_barrier.hpp"
#include "cluster/mpi/protocol/service_directory.hpp"

namespace hetsgd::mpi {

// The coordinator makes these calls into the current run. All are made by the channel's thread and
// must not block for long: the channel's heartbeats wait for them.
class CoordinatedRun : public PausableWorld, public ServiceHost, public VotingRun {
 public:
  // The run has failed with this error: nobody may go on. The run still comes to end().
  virtual void fail(std::exception_ptr error) = 0;
  // Does what is due for the run, and says how soon the channel must look again.
  virtual Pace pace() = 0;
  // Some process has posted receives, so another rank may still send to it.
  virtual bool still_receives() = 0;
  // The same as DeadlockVote::Blocked.
  virtual std::optional<Seconds> blocked(std::vector<BlockedProcess>& waiting) = 0;

 protected:
  ~CoordinatedRun() = default;
};

// One per process. It outlives all runs.
class Coordinator {
 public:
  // Registers the handlers of all protocols, before the channel starts. Both must outlive it.
  Coordinator(Channel& channel, const std::vector<ProcessPlace>& places);

  // --- the calls of one run, in this order, by one thread
  // begin() and set_up() return when all ranks have come, or the run has failed; then begin()
  // returns false. run: acted upon until end_run() returns. peer_timeout: how long a rank may be
  // silent.
  bool begin(CoordinatedRun& run, Seconds peer_timeout);
  // offset: this rank's monotonic clock minus rank 0's. Returns the start of the run on this rank's
  // clock; after a failure, now.
  std::int64_t set_up(std::int64_t offset_ns);
  // Returns when all threads of all ranks have ended: the reports of all, on rank 0. After a
  // failure the others are waited for only for some seconds, and the reports may be missing.
  std::vector<std::vector<std::byte>> end(std::span<const std::byte> report);
  // After end(): nobody calls the run any more; returns the failure of the run, the same on every
  // rank.
  std::optional<Failure> end_run();

  // --- while it is on: the protocols that processes use
  ClockPause& pause() { return pause_; }
  GroupNumbers& groups() { return groups_; }
  ServiceDirectory& services() { return services_; }
  FailureVote& failures() { return failures_; }
  // After a failure: nobody on any rank receives any more, or will. Memory that is still being sent
  // may be freed then.
  const std::atomic<bool>& everybody_quiet() const { return everybody_quiet_; }
  // After a loss, when all threads of this rank have ended and all that it has sent has been
  // received. everybody_emptied(): so have all ranks, or the run has failed.
  void emptied() { barrier_.come(RankBarrier::Point::emptied); }
  bool everybody_emptied() const { return everybody_emptied_ || channel_.failing(); }

  // --- at any time
  // From any thread, also with the world's mutex held: the run, or the next one, fails.
  void fail(std::exception_ptr error) { errors_.fail(std::move(error)); }
  // Collective, outside of runs. Blocks; errors are in the result.
  Agreement::Result agree(std::span<const std::byte> answer, const std::optional<Failure>& failure,
                          Seconds peer_timeout);
  // Why a rank is lost, as far as this one knows; none: none is.
  std::optional<Failure> loss() const { return errors_.loss(); }
  // This rank has lost rank 0.
  bool root_is_lost() const { return errors_.lost() && channel_.rank() != 0; }
  // The end of the program: waits until all have come. False: somebody cannot come, or has not
  // within `limit` (none: it waits for as long as nobody is lost).
  bool leave(std::optional<Seconds> limit);
  // The channel's hook. Looks after the run, or after a wait outside of one, and says when to look
  // again.
  Pace tick();

 private:
  // The error that rank 0 has chosen has arrived.
  void on_failure(std::exception_ptr error);
  // All ranks have come to a point. at: an instant of rank 0's clock.
  void on_met(RankBarrier::Point point, int epoch, std::int64_t at);
  // tick() while a run is on; called with the mutex of run_.
  Pace look_after(CoordinatedRun& run);

  Channel& channel_;
  // The run, as long as it is on. The protocols that call into it have attachments of their own.
  Attached<CoordinatedRun> run_;
  FirstError errors_;
  RankBarrier barrier_;
  Agreement agreement_;
  Heartbeats heartbeats_;
  DeadlockVote deadlocks_;
  GroupNumbers groups_;
  ServiceDirectory services_;
  ClockPause pause_;
  FailureVote failures_;

  // leaving_: this rank waits in leave(), so the silence of others matters.
  std::atomic<bool> everybody_quiet_ = false, everybody_emptied_ = false, leaving_ = false;
  // The start of the run, in ns of rank 0's clock. Set before set_up() returns.
  std::atomic<std::int64_t> start_at_ = 0;
  // The current run has failed. This and the next: the channel's thread only.
  bool failing_ = false;
  // Rank 0 has been told that this rank does not receive any more.
  bool quiet_said_ = false;
};

}  // namespace hetsgd::mpi
