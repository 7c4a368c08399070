// A service of the threads cluster: one thread with a queue.
//
// Nothing is copied on the way in: the handler reads the request and its payload from the caller's
// memory, and an answer goes straight into the caller's memory. A caller is let go when it is
// answered and the handler has returned from its request.
//
// A request, from its caller's side (QueueEntry):
//
//                      popped                       the handler returns
//   queued ---------------------> in the handler ------------------------> handled, no answer yet
//     |                              | the handler answers                      | a later request's
//     |                              v                                          v handler answers
//     |                           answered --------------------------------> complete
//     |                                             the handler returns         |
//     v abort                                                                   v
//   forgotten: out of the queue, its token answers nobody                    the caller goes on
//
// `users` counts what touches the caller's memory without the mutex: the handler, which reads the
// request, and an answer, which writes the reply. The caller is interruptible only at 0. So an
// abort can forget a request that is queued or deferred at once, and one that is at work as soon as
// that work is over.
//
// Three objects refer to each other: the entry (its caller's), the Token (the handler's, which may
// keep it) and the queue. The object that ends first unlinks itself, under the mutex: the token by
// answering or in its destructor, the entry by forget().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/realtime/world.hpp"
#include "cluster/segment.hpp"
#include "cluster/service.hpp"

namespace hetsgd::threads {

using namespace realtime;

class Token;

// A request or a notice in the queue. A request belongs to its caller and lies on its stack or in a
// Posted; a notice belongs to the service. Guarded by the world's mutex; what the spans refer to
// belongs to the caller again when the request is complete or forgotten. Aligned to cache lines:
// two cores hand it to and fro, and each further line costs a transfer.
struct alignas(64) QueueEntry {
  QueueEntry* next = nullptr;
  int from = 0;
  bool is_notice = false;     // worker `from` has left
  Process* caller = nullptr;  // the process to be woken; null: a notice
  Token* token = nullptr;     // the pending answer while it exists
  ServiceCall call;           // payloads on the host
  Traffic reply_kind = Traffic::control;
  Seconds copying{0};  // the time that the answer's copy took
  int users = 0;       // handler and answer at work on the caller's memory
  bool handled = false;
  bool answered = false;
  Seconds since{0};  // called
  bool complete() const { return answered && handled; }
};

// The service itself. Its ports and the run share it; its thread uses it until it is joined.
// Requests and notices are handled one at a time, in the order of their arrival.
class ThreadsService {
 public:
  ThreadsService(World& world, std::string name, std::unique_ptr<ServiceHandler> handler);

  // The service's thread: handles until only services are left and the queue is empty. Throws what
  // the handler throws, which aborts the run.
  void serve(Process& me);
  // From a process, whose TimeBreakdown counts the bytes. The entry is the service's until await()
  // or settle() has returned, and must not move.
  void send(QueueEntry& entry);
  // send() and await() at once.
  void call(QueueEntry& entry);
  // Returns when the answer is here. The time counts as `wait`, but for the copying of the answer,
  // which is `communicate`. Once for each entry; not after settle().
  void await(QueueEntry& entry);
  // Returns when nobody uses the entry: answered, or the run has failed. As PendingCall::settle.
  void settle(QueueEntry& entry, bool failing) noexcept;
  // Worker `rank` has ended: the handler hears of it in turn. Any thread, without the mutex.
  void left(int rank);
  // When its thread has ended.
  void save(SavedFields& fields) { save_service(fields, name_, *handler_); }
  World& world() { return world_; }

 private:
  // All under the mutex. pop: there is a first. remove: linear in the queue; nothing if the entry
  // is not in it any more.
  void push(QueueEntry& entry);
  QueueEntry* pop();
  void remove(const QueueEntry& entry);
  void forget(QueueEntry& entry);
  void enqueue(QueueEntry& entry);
  void await(QueueEntry& entry, World::Lock& lock);

  World& world_;
  std::string name_;
  Process* process_ = nullptr;  // null until its thread serves
  QueueEntry* first_ = nullptr;
  QueueEntry* last_ = nullptr;  // good only if there is a first
  std::vector<std::unique_ptr<QueueEntry>> notices_;
  std::unique_ptr<ServiceHandler>
      handler_;  // last: pending answers that it keeps refer to the rest
};

// A rank's end of a service, for all of its processes: it holds nothing of a call.
class ThreadsPort final : public ServicePort {
 public:
  ThreadsPort(std::shared_ptr<ThreadsService> service, int rank)
      : service_(std::move(service)), rank_(rank) {}
  // The payloads may be memory of the caller's device.
  void call_raw(const ServiceCall& call) override;
  std::unique_ptr<PendingCall> post_raw(const ServiceCall& call) override;

 private:
  class Posted;  // a call in flight; its memory lives until its PendingCall does
  std::shared_ptr<ThreadsService> service_;
  int rank_;
};

}  // namespace hetsgd::threads
