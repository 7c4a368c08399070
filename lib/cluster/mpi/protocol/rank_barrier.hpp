// RankBarrier: points that all ranks of a run reach: before it, when the workers are set up, when
// all threads of all ranks have ended, and so on. Because of the first one no rank waits inside an
// MPI call for a rank that has failed.
//
//   come(point)  -> kCome(epoch, point, content) to rank 0, which counts
//   all have     -> kMet(epoch, point, instant) to all; what they brought stays on rank 0
//
// A rank at one point:
//
//           come()           kMet                    on_met, then await() returns true
//    away --------> has come -----------------> met ----------------------------------->
//                      |   an error, or a rank is lost
//                      +-----------------------------> await() returns false
//                      |   the same, and `outlast`          kMet within the grace
//                      +-----------------------------> waits on -----------------> true
//
// MPI's own barrier would not do: it cannot be given up, and a rank would wait inside of the
// library.
//
// After a failure a rank may skip points, except `ended`, which every rank reaches. An error ends
// the wait. If the others must know that nobody uses their memory any more, they still wait for a
// short time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cluster/mpi/protocol/first_error.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

class RankBarrier {
 public:
  // Points in the order of a run. begin: before anything of it. set_up: workers and clock offsets
  // are there. ended: all threads of all ranks have ended; the content is the rank's report. quiet,
  // after a failure only: no process of any rank receives any more. emptied, after a loss of
  // workers only: everything that was sent has been received. leave: the end of the program.
  enum class Point : int { begin, set_up, ended, quiet, emptied, leave };
  // at: an instant of rank 0's monotonic clock, in ns, which lies a little in the future for all
  // ranks. So they can begin something together at it.
  using OnMet = std::function<void(Point point, int epoch, std::int64_t at)>;

  // on_met: called by the thread of `control` before anybody on this rank goes on from await().
  RankBarrier(Control& control, FirstError& errors, OnMet on_met);

  // This rank has come, in the current epoch (leave: in none). Any thread; does not wait. Once per
  // point and epoch. content: kept by rank 0 for `ended`, else empty.
  void come(Point point, std::span<const std::byte> content = {});
  // Returns when all have come, with true. False: an error ended the wait. outlast: the wait
  // goes on for some seconds even then, and true tells that all came. limit: it lasts for so long
  // in all, whatever errors there are.
  bool await(Point point, bool outlast = false, std::optional<Seconds> limit = {});
  // On rank 0 after await(): what each rank brought to `ended`, by rank. Empty on the other ranks,
  // and where not all have come.
  std::vector<std::vector<std::byte>> take_contents();

 private:
  // The epoch and the point. Each pair is counted alone, since a rank may be a point ahead of
  // others.
  using Key = std::pair<int, Point>;
  // On rank 0: the ranks that have come to one point so far.
  struct Attendance {
    int count = 0;
    std::vector<std::vector<std::byte>> contents;
  };
  Key key(Point point) const;
  void on_come(int from, const Key& at, std::vector<std::byte> content);

  Control& control_;
  FirstError& errors_;
  const OnMet on_met_;
  // Points that all have reached. Guarded by the mutex of errors_.
  std::set<Key> met_;
  // On rank 0, of the last `ended`. Guarded likewise.
  std::vector<std::vector<std::byte>> contents_;
  // On rank 0: points that some have come to and some have not. The thread of `control` only.
  std::map<Key, Attendance> attendance_;
};

}  // namespace hetsgd::mpi
