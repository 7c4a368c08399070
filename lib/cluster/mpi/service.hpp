// A service of the mpi cluster: a process beside rank 0's worker, or in a rank of its own. Requests
// and answers are messages, also those of the same rank.
//
//    caller (MpiPort)                            the service's process (MpiService)
//    call() posts the receive of the answer      has posted the receive of any request's head
//    request [info | request | pad | payload] -> takes it, calls the handler with a Token
//    waits                                       the handler keeps the Token or uses it
//    reply [reply | payload]              <----- Token::answer, now or in a later request
//
// call() posts the receive before the request leaves. A posted call posts it in wait() alone, so
// that the sender of an answer does not wait for a caller that computes. A loss of workers unwinds
// a caller that waits; the service goes on until all ranks have ended.
//
// A request names the caller's number, which is the tag of the answer, and how long the answer must
// be. The name of a service is its tag: ranks need not agree on an order of opening, and a request
// that comes before the service is made waits for it. A handler runs one request at a time and must
// not block; a Token that is dropped without an answer ends the run.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/mpi/transport.hpp"
#include "cluster/segment.hpp"
#include "cluster/service.hpp"

namespace hetsgd::mpi {

// The front of a request. All ranks run the same program, so it travels as it lies in memory.
struct RequestInfo {
  // Number of the waiting caller (CallerNumbers).
  std::int32_t caller = 0;
  // Lengths of the parts that follow: the request in bytes, then padding, then the payload in
  // floats.
  std::int32_t request_bytes = 0;
  std::uint64_t payload_count = 0;
  // The caller's room: the answer must have exactly these sizes (payload in floats, reply in
  // bytes).
  std::uint64_t reply_payload_count = 0;
  std::int32_t reply_bytes = 0;
  // No byte of the struct is left uninitialised.
  std::int32_t unused = 0;
};

// Numbers of the callers of this rank that wait for an answer at the same time. They are the
// answers' tags, so no two of them may be equal. Blocking calls have even numbers, posted ones odd
// ones. Thread-safe.
class CallerNumbers {
 public:
  // Number of a process, for its blocking calls; number: Process::number. It belongs to the
  // process and not to the port: two processes of a worker may share a port, and answers come in
  // the order of the handler's choice.
  static int of_process(int number) { return 2 * (number % kEach); }
  // Number of one posted call. Numbers repeat after kEach calls: by then the earlier one must be
  // complete.
  int of_post() { return 2 * static_cast<int>(posts_++ % unsigned{kEach}) + 1; }

 private:
  static constexpr int kEach = Tags::kUserTags / 2;
  std::atomic<unsigned> posts_ = 0;
};

// The tag number of a service: a hash of its name, in [0, kUserTags). Names that collide are a
// CheckFailure where the second one is made.
int service_number(const std::string& name);

// On the services' rank. Lives until the end of the run, since answers that its handler keeps refer
// to it.
class MpiService {
 public:
  // ended: becomes true when all processes of all ranks have ended. rank_of: the rank in the view
  // of the worker of a rank of the world. All references outlive the service.
  MpiService(Transport& transport, std::string name, std::unique_ptr<ServiceHandler> handler,
             const std::atomic<bool>& ended, std::function<int(int world_rank)> rank_of);

  // The service's process: handles requests until all have ended. An exception of a handler ends
  // the run.
  void serve();
  // Worker `rank` has ended. Any thread: the handler is told by the service's process, which
  // serve() wakes at its next look.
  void left(int rank);
  // When its thread has ended.
  void save(SavedFields& fields) { save_service(fields, name_, *handler_); }

 private:
  class Idle;
  // Takes the request, whose head is complete, and calls the handler.
  void handle(HeadReceive& head);
  // Tells the handler which workers have left. False: there is no news.
  bool handle_notices();

  Transport& transport_;
  const std::string name_;
  const int number_;
  const std::atomic<bool>& ended_;
  const std::function<int(int)> rank_of_;
  // The request that is being handled.
  HostScratch message_;
  // Guards left_.
  std::mutex mutex_;
  std::deque<int> left_;
  // left_ is not empty, for a look without the mutex.
  std::atomic<bool> notices_ = false;
  // The last member, and so the first to be destroyed: answers that it keeps refer to the rest.
  std::unique_ptr<ServiceHandler> handler_;
};

// A worker's side of a service. Its processes may share it. Calls are counted in the caller's time
// breakdown: the sending of a request and the transfer of a long answer are communication, the rest
// is waiting.
class MpiPort final : public ServicePort {
 public:
  // callers: numbers its callers, of all ports of this rank. host: the service's rank.
  MpiPort(Transport& transport, std::string name, CallerNumbers& callers, int host)
      : transport_(transport),
        name_(std::move(name)),
        number_(service_number(name_)),
        callers_(callers),
        host_(host) {}
  // The payloads may be memory of the caller's device. Throws CheckFailure if a service calls a
  // service.
  void call_raw(const ServiceCall& call) override;
  std::unique_ptr<PendingCall> post_raw(const ServiceCall& call) override;

 private:
  // One call, and one that was posted; both in service.cpp.
  class Call;
  class Posted;

  Transport& transport_;
  const std::string name_;
  const int number_;
  CallerNumbers& callers_;
  const int host_;
};

}  // namespace hetsgd::mpi
