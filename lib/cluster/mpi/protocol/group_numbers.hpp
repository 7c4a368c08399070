// GroupNumbers: numbers that no group of the run has had, above 0. A number becomes a part of MPI
// tags (transport.hpp), so two groups of one run must never share one. Rank 0 counts; a rank that
// needs a number asks rank 0 and polls for the answer. (0 is the group of all workers, which exists
// from the start.)
//
//   any rank                     rank 0
//   ask()  ---- kAskGroup ---->  ++last_
//   take() <--- kGroup --------
//
// Several processes of a rank may ask at once. Each takes whichever answer comes first: the numbers
// differ, and which process gets which does not matter.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/process_group.hpp"

namespace hetsgd::mpi {

class GroupNumbers {
 public:
  explicit GroupNumbers(Control& control) : control_(control) {
    on_values(control_, kAskGroup,
              [this](int from) { send_values(control_, from, kGroup, ++last_); });
    on_values<int>(control_, kGroup, [this](int, int number) {
      const std::lock_guard guard(mutex_);
      answers_.push_back(number);
    });
  }

  // Any thread. Does not wait.
  void ask() { send_values(control_, 0, kAskGroup); }
  // Any thread. The next answer; empty where none has come yet: the caller polls (poll_for), so
  // that a pause or an abort of the run reaches it meanwhile.
  std::optional<int> take() {
    const std::lock_guard guard(mutex_);
    if (answers_.empty()) return std::nullopt;
    const int number = answers_.front();
    answers_.pop_front();
    return number;
  }

  // On the thread of `control`, when all ranks have come to the start of a run: numbers start at 1
  // again, as each run has a communicator of its own.
  void restart() { last_ = 0; }
  // Before a run, on the thread of the run's owner: an answer that an aborted process has not taken
  // is dropped. No answer of the last run comes after this: rank 0 sends it before it tells this
  // rank that all have ended, and messages of one pair keep their order. (An exception is a failed
  // run whose ranks did not wait for each other to the end; see RankBarrier::await.)
  void forget() {
    const std::lock_guard guard(mutex_);
    answers_.clear();
  }

 private:
  Control& control_;
  int last_ = 0;  // rank 0; the thread of `control` only
  // Guards the answers, which are in the order of their arrival.
  std::mutex mutex_;
  std::deque<int> answers_;
};

}  // namespace hetsgd::mpi
