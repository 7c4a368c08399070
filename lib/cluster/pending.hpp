// Calls that go on while their caller computes: `Pending sum = comm.start(all_reduce(x)); ...;
// sum.wait();`.
//
//   start()         all ranks have started it, and what     all data
//     |             was started before is complete          are there
//     +--> started -----------------------------> moving -----------> complete --> wait() returns
//              |                                     |
//              +---------- the run fails ------------+--> wait() throws; settle() returns when
//                                                         nobody touches the memory any more
//
// A process that starts a call does not wait. The calls that are started on one Comm are matched by
// the order of starting, apart from its blocking calls. They are made one after the other in that
// order; the result has the bits of the blocking form. Nobody may touch a call's memory before it
// is complete. The TimeBreakdown counts the time blocked in wait() as `wait`; the bytes are the
// worker's.
//
// An error of a call ends the run as that of a blocking one does, at the latest in wait(). A
// Pending that is destroyed waits first; one that an exception unwinds makes the run fail with that
// exception.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "core/units.hpp"

namespace hetsgd {

// When a call was made: from its turn on this rank (it was started, and what was started before was
// complete) to its completion.
struct CallTime {
  Seconds begin{0}, end{0};
};

// A call in flight, as a cluster implements it: a collective, or a request posted to a service.
// Destroyed after wait() or settle().
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  // Returns when the call is complete. Once.
  virtual CallTime wait() = 0;
  // Returns when nobody touches the call's memory any more: complete, or the run has failed. With
  // `failing` an exception is unwinding the caller, which will do nothing more for the run: it
  // fails.
  virtual void settle(bool failing) noexcept = 0;
};

struct StartedNotes;

// Owns a call in flight; movable. The destructor waits, so that the memory of a call may be freed
// after it: declare a Pending behind the buffers that it uses. Whether the destructor runs because
// of an exception is told by the number of exceptions in flight, compared with that at its making.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // holds no call
  explicit Pending(std::unique_ptr<PendingCall> call, std::shared_ptr<StartedNotes> notes = nullptr)
      : call_(std::move(call)), notes_(std::move(notes)) {}
  Pending(Pending&&) = default;
  // Waits for its own call first. The count of exceptions stays that of this object's making.
  Pending& operator=(Pending&& other) noexcept {
    settle();
    call_ = std::move(other.call_);
    notes_ = std::move(other.notes_);
    return *this;
  }
  ~Pending() { settle(); }

  // Returns when the call is complete. At once, with no time, if it was waited for before, if there
  // is none, and in a group of one rank.
  CallTime wait();

 private:
  void settle() noexcept;

  std::unique_ptr<PendingCall> call_;
  std::shared_ptr<StartedNotes> notes_;          // null: the call is not noted
  int exceptions_ = std::uncaught_exceptions();  // in flight at its making
};

}  // namespace hetsgd
