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
// the order of starting, apart from its blocking calls, and are made one after the other in that
// order; the result has the bits of the blocking form. Nobody may touch a call's memory before it
// is complete. What wait() blocks for is `wait` in the TimeBreakdown; the bytes are the worker's.
//
// An error of a call ends the run as that of a blocking one does, at the latest in wait(). A
// Pending that is destroyed waits first; one that an exception unwinds makes the run fail with that
// exception.
#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "cluster/collective_call.hpp"

namespace hetsgd {

// A collective as a value. Refers to the caller's memory.
struct CollectiveRequest {
  CollectiveCall call;
  const void* in = nullptr;  // what the blocking form takes
  void* out = nullptr;
  AllToAll parts;  // of all_to_all
};

// The arguments are those of Comm's members of the same names; counts of all_to_all are memory of
// the call, too. Nothing happens here: the request may be kept, and started or called often.
template <class T>
CollectiveRequest all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum,
                             Traffic kind = Traffic::control) {
  static_assert(element_of<T>() != Element::byte, "only float, double and int64 can be reduced");
  return {{.collective = Collective::all_reduce,
           .count = data.size(),
           .element = element_of<T>(),
           .op = op,
           .kind = kind},
          data.data(),
          data.data(),
          {}};
}
template <class T>
CollectiveRequest reduce_scatter(std::span<T> data, ReduceOp op = ReduceOp::sum,
                                 Traffic kind = Traffic::control) {
  CollectiveRequest request = all_reduce(data, op, kind);
  request.call.collective = Collective::reduce_scatter;
  return request;
}
template <class T>
CollectiveRequest broadcast(std::span<T> data, int root, Traffic kind = Traffic::control) {
  return {
      {.collective = Collective::broadcast, .count = data.size_bytes(), .root = root, .kind = kind},
      data.data(),
      data.data(),
      {}};
}
template <class T>
CollectiveRequest all_gather(std::span<const T> mine, std::span<T> all,
                             Traffic kind = Traffic::control) {
  return {{.collective = Collective::all_gather, .count = mine.size_bytes(), .kind = kind},
          mine.data(),
          all.data(),
          {}};
}
template <class T>
CollectiveRequest all_to_all(std::span<const T> send, std::span<const std::size_t> send_counts,
                             std::span<T> receive, std::span<const std::size_t> receive_counts,
                             Traffic kind = Traffic::control) {
  return {{.collective = Collective::all_to_all, .count = sizeof(T), .kind = kind},
          nullptr,
          nullptr,
          all_to_all_parts(send, send_counts, receive, receive_counts)};
}

// Makes a call as the blocking form does. Errors: check failure, a kind that cannot be started
// (barrier, split, agree).
void call_now(Comm& comm, const CollectiveRequest& request);

// When a call was made: from its turn on this rank (it was started, and what was started before was
// complete) to its completion.
struct CallTime {
  Seconds begin{0}, end{0};
};

// A call under way, as a cluster implements it: a collective, or a request posted to a service.
// Destroyed after wait() or settle().
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  // Returns when the call is complete. Once.
  virtual CallTime wait() = 0;
  // Returns when nobody touches the call's memory any more: complete, or the run has failed. With
  // `failing` an exception is unwinding the caller, who will do nothing more for the run: it fails.
  virtual void settle(bool failing) noexcept = 0;
};

// Owns a call under way; movable. The destructor waits, so that the memory of a call may be freed
// after it: declare a Pending behind the buffers that it uses. Whether the destructor runs because
// of an exception is told by the number of exceptions in flight, compared with that at its making.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // of no call
  explicit Pending(std::unique_ptr<PendingCall> call) : call_(std::move(call)) {}
  Pending(Pending&&) = default;
  // Waits for its own call first. The count of exceptions stays that of this object's making.
  Pending& operator=(Pending&& other) noexcept {
    settle();
    call_ = std::move(other.call_);
    return *this;
  }
  ~Pending() { settle(); }

  // Returns when the call is complete. At once, with no time, if it was waited for before, if there
  // is none, and in a group of one rank.
  CallTime wait() {
    if (!call_) return {};
    const CallTime time = call_->wait();
    call_.reset();
    return time;
  }

 private:
  void settle() noexcept;

  std::unique_ptr<PendingCall> call_;
  int exceptions_ = std::uncaught_exceptions();  // in flight at its making
};

}  // namespace hetsgd
