// FirstError: the error that ends a run, the same on every rank: the first that reaches rank 0.
// Runs are numbered by epochs, from 1; every rank counts its own runs, and all have the same ones.
//
//   fail() on a rank -> kFailed(epoch, error) to rank 0, which drops it if
//                         - the epoch has an error already,
//                         - the run of the epoch has ended on all ranks (over())
//                       else: kFailure(epoch, error) to all
//   kFailure         -> every wait() returns; on_failure is called if the epoch's run is on
//
// The state of an epoch on one rank:
//
//            kFailure or a loss                 end_epoch(): the error
//    open ----------------------> failed ------------------------------+
//      |                                                               v
//      +---------------------------------------------------------> next epoch, open
//            all have ended: over(); end_epoch(): none
//
// An error that comes between two runs is the next one's. A rank that is lost (heartbeats.hpp) ends
// every wait from then on, in this epoch and in all later ones.
//
// This class also owns the mutex and the condition variable that the other protocols use to make a
// caller wait. An error must end such a wait, and with one mutex for both nothing can fall between
// the test and the sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "cluster/process_group.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

// Failure: an error as a message between ranks.
//
// An exception cannot travel, so its kind and its texts do, and every rank throws the same kind
// again. Kinds that a receiver tells apart: Error with its exit code and hint, CheckFailure,
// Interrupted; any other exception becomes an Error(runtime) with its text.
struct Failure {
  // ExitCode of the Error; runtime for everything else.
  int code = 0;
  // It is a CheckFailure.
  bool is_check = false;
  // The signal of an Interrupted (0: the time limit); -1: it is none.
  int interrupted = -1;
  std::string text{}, hint{};

  // The text says which rank failed; with size 1 it is the error's own. An Interrupted names no
  // rank: it comes from outside.
  static Failure of(std::exception_ptr error, int rank, int size);
  // The exception that of() was made from, as far as it has travelled.
  std::exception_ptr exception() const;

  static constexpr auto members() {
    return std::tuple(&Failure::code, &Failure::is_check, &Failure::interrupted, &Failure::text,
                      &Failure::hint);
  }
};

class FirstError {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // on_failure: called by the thread of `control`, once per epoch that fails, without the mutex. It
  // may come before the run of the epoch has begun on this rank. Then it has nothing to stop, and
  // the caller that begins the run finds the error in wait().
  FirstError(Control& control, std::function<void(std::exception_ptr)> on_failure);

  // From any thread, also with the world's mutex held: the current run, or the next one, fails.
  // Returns at once; whether this error becomes the run's is decided on rank 0. The text gets this
  // rank's number.
  void fail(std::exception_ptr error);
  // On rank 0, on the thread of `control`: an error that rank 0 has found and that belongs to no
  // rank.
  void fail_all(const Failure& failure);
  // On the thread of `control`. Rank 0 tells all others; a rank that has lost rank 0 can tell
  // nobody, and fails alone.
  void lose_a_rank(const Failure& why);
  bool lost() const { return lost_rank_; }
  // Why a rank is lost; none: none is.
  std::optional<Failure> loss() const {
    if (!lost()) return std::nullopt;
    const Lock guard = lock();
    return lost_;
  }

  // Any thread. The number of the current run, or else of the next one.
  int epoch() const;
  // The run of `epoch` has ended on all ranks: an error that arrives for it from here on is
  // dropped.
  void over(int epoch);
  // Called once per run by the run's owner: begins the next epoch and returns the failure of this
  // one.
  std::optional<Failure> end_epoch();

  // --- waits that an error ends. The mutex of lock() guards everything that `ready` reads, and
  // notify() follows each change of it.
  Lock lock() const { return Lock(mutex_); }
  void notify() { changed_.notify_all(); }
  // Returns when ready(), with true, or with false when the epoch has failed or a rank is lost.
  // Where both hold the error wins, so a caller never goes on into a run that it could know to be
  // dead.
  template <class Ready>
  bool wait(Lock& held, int epoch, Ready ready) {
    const auto failed = [&] { return failures_.contains(epoch) || lost_; };
    changed_.wait(held, [&] { return ready() || failed(); });
    return ready() && !failed();
  }
  // A wait that errors do not end, for what must be awaited in spite of one. False: `limit` has
  // passed.
  template <class Ready>
  bool wait_for(Lock& held, Seconds limit, Ready ready) {
    return changed_.wait_for(held, limit, ready);
  }
  // The same as wait() outside of runs. A signal (Interrupted) does not end it: it ends the next
  // run, and all ranks must come to the same agreements until then.
  template <class Ready>
  void wait_between_runs(Lock& held, Ready ready) {
    changed_.wait(held, [&] { return ready() || between_runs(); });
  }
  // With the lock held: what ends a wait outside of runs; null: nothing. The pointer is valid as
  // long as the lock is held.
  const Failure* between_runs() const;

 private:
  void decide(int epoch, const Failure& failure);
  void on_failure(int epoch, const Failure& failure);

  Control& control_;
  const std::function<void(std::exception_ptr)> fail_run_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  // The number of the current run, or of the next one.
  int epoch_ = 1;
  // The last epoch whose run has ended on all ranks.
  int over_ = 0;
  // By epoch; an entry is never removed, so a late wait for an old epoch still ends.
  std::map<int, Failure> failures_;
  // Why a rank is lost. Never reset.
  std::optional<Failure> lost_;
  // Whether lost_ is set, for readers without the mutex.
  std::atomic<bool> lost_rank_ = false;
};

}  // namespace hetsgd::mpi
