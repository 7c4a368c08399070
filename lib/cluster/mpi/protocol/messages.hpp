// Messages: what the protocols between ranks have in common, which is their kinds of message, and
// values (core/byte_stream.hpp) as the content of one.
//
// The protocols know a Control and not MPI, so that each can be tested alone: a test gives them a
// Control that carries messages between objects of one process. They rely on three promises of
// Control. Messages of one pair of ranks arrive in the order sent, including those that a rank
// sends to itself. Handlers run one at a time on one thread (below, "the thread of `control`").
// send() never waits for the receiver, so a handler may send. Nothing is promised about the order
// of messages that come from different ranks.
#pragma once

#include <mutex>
#include <span>
#include <tuple>
#include <utility>

#include "cluster/process_group.hpp"
#include "core/byte_stream.hpp"

namespace hetsgd::mpi {

// Kinds below 0 are the cluster's own; users of Control take others. Each kind belongs to one
// protocol, which registers its handler in its constructor. The comments say its sender, its
// receiver and its content.
enum Kind : int {
  // RankBarrier. Any rank to rank 0: the epoch, the point and what the rank brings.
  kCome = -1,
  // RankBarrier. Rank 0 to all: the epoch, the point and the instant.
  kMet = -2,
  // FirstError. Any rank to rank 0: the epoch and the error that the rank has.
  kFailed = -3,
  // FirstError. Rank 0 to all others: the epoch and the error that counts.
  kFailure = -4,
  // ServiceDirectory. Any worker to the host of the services, without content.
  kLeft = -5,
  // ClockPause: kAskPause, kStopped and kDone go from a rank to rank 0, the others from rank 0 to
  // all.
  kAskPause = -6,
  kStop = -7,
  kStopped = -8,
  kGo = -9,
  kDone = -10,
  kResume = -11,
  // GroupNumbers. Any rank to rank 0, and the answer.
  kAskGroup = -12,
  kGroup = -13,
  // Agreement. Any rank to rank 0, and rank 0 to all.
  kAgree = -14,
  kAgreed = -15,
  // DeadlockVote. Any rank to rank 0: a text, which is empty where the rank takes its vote back.
  kBlocked = -16,
  // ServiceDirectory. Opener to host, host to opener, opener to host.
  kAskService = -17,
  kServiceWanted = -18,
  kFactory = -19,
  // FailureVote: kLost and kHalted go from a rank to rank 0, the others from rank 0 to all.
  kLost = -20,
  kHalt = -21,
  kHalted = -22,
  kComplete = -23,
};

// Sends the values, or none, to rank `to`, which may be the own one. Any thread; does not wait.
template <class... T>
void send_values(Control& control, int to, Kind kind, const T&... values) {
  control.send(to, kind, to_bytes(values...));
}

// To every rank, the own one included: its handler runs later, like those of the others, and not
// inside of this call. A protocol therefore has one code path for rank 0 and for the rest.
template <class... T>
void send_values_to_all(Control& control, Kind kind, const T&... values) {
  const auto bytes = to_bytes(values...);
  for (int to = 0; to < control.size(); ++to) control.send(to, kind, bytes);
}

// Registers fn(from, values...) as the handler of `kind`. It is called by the thread of `control`.
// Bytes that are no such values are an Error(data), which the channel reports as the failure of the
// run.
template <class... T, class Fn>
void on_values(Control& control, Kind kind, Fn fn) {
  control.on_message(kind, [fn](int from, std::span<const std::byte> bytes) {
    ByteReader in(bytes, "a message between ranks");
    std::tuple<T...> values{in.get<T>()...};  // braces: read in this order
    in.end();
    std::apply([&](T&... each) { fn(from, std::move(each)...); }, values);
  });
}

// Attached: the part of a run that a protocol acts on, while a run is on.
//
// A protocol lives as long as the program, a run for a part of that. The thread of the Control
// calls into the run through call(), and the run's owner detaches it with attach(nullptr) before it
// destroys it. The mutex is held during the call, so a detached target is never in use. Two things
// follow: a target must not attach or detach from inside of call(), and call() must not be nested,
// as the mutex is not recursive.

template <class T>
class Attached {
 public:
  // From now on calls go to `target`, which the caller owns; null: to nobody. Returns when nobody
  // acts on the last one any more.
  void attach(T* target) {
    const std::lock_guard guard(mutex_);
    target_ = target;
  }
  // Calls fn(target) under the mutex, unless there is none. Throws what fn throws.
  template <class Fn>
  void call(Fn fn) {
    const std::lock_guard guard(mutex_);
    if (target_) fn(*target_);
  }

 private:
  // Guards the pointer, and keeps the target alive while fn runs.
  std::mutex mutex_;
  T* target_ = nullptr;
};

}  // namespace hetsgd::mpi
