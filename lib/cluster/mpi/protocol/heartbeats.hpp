// Heartbeats: which ranks are alive. The channel sends one often enough, whatever the rank does
// (its thread needs no other thread of the process); here is the watch over them. Rank 0 listens to
// all, and all listen to rank 0:
//
//      any message: the silence begins anew
//        +----+
//        |    v       silence >= timeout
//        alive ---------------------------> lost
//
// "Lost" is final, and the first loss ends the run: FirstError then ends every wait, and the ranks
// leave without each other. Any message counts as a heartbeat, not only those that are sent for it.
// Two ranks other than rank 0 do not watch each other, so the traffic is 2 (p - 1) messages per
// interval.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "cluster/mpi/protocol/first_error.hpp"
#include "cluster/process_group.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

class Heartbeats {
 public:
  // silence(rank): how long ago the last message of a rank came. It is called by the thread of
  // `control`. All references must outlive this object; `places` gives the hosts' names for the
  // error.
  Heartbeats(Control& control, FirstError& errors, const std::vector<ProcessPlace>& places,
             std::function<Seconds(int rank)> silence)
      : control_(control), errors_(errors), places_(places), silence_(std::move(silence)) {}

  // Any thread. A rank that is silent for this long is lost. The default is kPeerTimeout.
  void set_timeout(Seconds timeout) { timeout_ = timeout; }
  Seconds timeout() const { return timeout_; }
  // On the thread of `control`, between its other work, and outside of runs only while this rank
  // waits for another one. A rank that has been silent for too long is lost, and is named together
  // with its host. It does nothing after the first loss. Must not be called from inside of
  // Attached::call, since a loss fails the run.
  void look() {
    const bool root = control_.rank() == 0;
    const int end = root ? control_.size() : 1;
    for (int peer = root ? 1 : 0; peer < end; ++peer) {
      const Seconds silence = silence_(peer);
      if (silence < timeout() || errors_.lost()) continue;  // one loss ends the run
      errors_.lose_a_rank({.code = static_cast<int>(ExitCode::runtime),
                           .text = fmt::format("rank {} ({}) has sent no heartbeat for {:.0f} s",
                                               peer, places_[at(peer)].host, silence.count()),
                           .hint = "the log of that host may say why the rank ended; "
                                   "--peer-timeout sets the time limit"});
    }
  }

 private:
  Control& control_;
  FirstError& errors_;
  const std::vector<ProcessPlace>& places_;
  const std::function<Seconds(int)> silence_;
  std::atomic<Seconds> timeout_{kPeerTimeout};
};

}  // namespace hetsgd::mpi
