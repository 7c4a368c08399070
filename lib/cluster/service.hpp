// Service: a central role (scheduler, parameter server, state server, controller) as a serial
// request handler whose reply may be deferred. The one mechanism for every central part in the
// papers.
//
// A request is a small trivially copyable struct plus an optional vector of elements (a gradient, a
// model); so is a reply. Requests are handled one at a time in order of arrival (equal virtual
// times: lowest rank). In `sim` handling is an event that takes service time. In `threads` it is a
// thread, in `mpi` a thread beside rank 0 or of a rank of its own. The handler must not call
// anything that blocks; it may keep the Responder and answer during a later request.
//
//   call(), post() --> queued --> handle() --> answered --------------> the caller has the reply
//                                    |            ^
//                                    v            | by a later handle(), or by left()
//                                  deferred: the handler keeps the Responder
//
// So a handler needs no lock, and a deferred reply is how a service makes workers wait. To destroy
// a Responder unanswered is a check failure, as its caller would wait for ever.
//
//   struct Ask { int batch_size; };  struct Grant { SampleRange range; };
//   class Scheduler final : public Service<Ask, Grant> {
//     void handle(int from, const Ask& ask, std::span<const float>,
//                 Responder<Grant> reply) override { ... }
//   };
//   auto scheduler = serve<Scheduler>(endpoint, "scheduler", options);   // the same on every rank
//   Grant grant = scheduler.call(Ask{64});
//   auto next = scheduler.post(Ask{64}); ...; grant = next.wait();   // computes meanwhile
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "cluster/pending.hpp"
#include "cluster/worker_account.hpp"
#include "core/archive.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

namespace hetsgd {

class AnswerNotes;
struct HandlerNotes;
struct PortNotes;
class Trace;

// The answer that a handler owes to one request.
//
//   owed --answer(), of the right size--> answered
//     |
//     +--destroyed--> the run ends with the error that unanswered() returns, unless it is being
//                     torn down
//
// A cluster derives from it: deliver() carries the answer, and its destructor ends the run.
class ReplyToken {
 public:
  virtual ~ReplyToken() = default;
  // Called by the handler, once. Copies both: they may change afterwards. Throws CheckFailure if
  // the answer has another size than the caller has room for. The mistake is the handler's, so this
  // exception ends the run.
  void answer(std::span<const std::byte> reply, std::span<const float> payload, Traffic kind);

 protected:
  // service: its name, which outlives this object. from: the rank that asks. The sizes are those of
  // the answer that it has room for: bytes, elements.
  ReplyToken(const std::string& service, int from, std::size_t reply_bytes,
             std::size_t payload_count)
      : service_(service), from_(from), reply_bytes_(reply_bytes), payload_count_(payload_count) {}
  // At most once.
  virtual void deliver(std::span<const std::byte> reply, std::span<const float> payload,
                       Traffic kind) = 0;
  // For a destructor: the error that must end the run, because the caller would wait for ever. Null
  // if the request was answered, or if the handler throws, because its exception is then the error
  // to report.
  std::exception_ptr unanswered() const;

 private:
  friend class ServiceHandler;
  const std::string& service_;
  const int from_;
  const std::size_t reply_bytes_, payload_count_;
  bool answered_ = false;
  std::shared_ptr<AnswerNotes> notes_;  // null: the request is not noted
};

// The untyped form that clusters carry. All members but now() and set_clock() are called one at a
// time, where the service runs.
class ServiceHandler {
 public:
  virtual ~ServiceHandler() = default;
  // Called by clusters for each request: calls handle_raw(), and notes that if the handler has
  // notes. `turned`: when the service has turned to the request, if that was before.
  void handle_request(int from, std::span<const std::byte> request, std::span<const float> payload,
                      std::unique_ptr<ReplyToken> reply, std::optional<Seconds> turned = {});
  // Gives it notes in the line of this service; before the first request.
  void note_requests(Trace& trace, const std::string& service);
  // request and payload are valid during the call only. An exception of it ends the run.
  virtual void handle_raw(int from, std::span<const std::byte> request,
                          std::span<const float> payload, std::unique_ptr<ReplyToken> reply) = 0;
  // Service time on the server's device beyond the transfer, e.g. the bytes of an update.
  virtual Work work_raw(std::span<const std::byte> request, std::size_t payload_count) const = 0;
  // Called once when worker `rank` has ended (its main process returned), or (sim, threads) is
  // lost: nobody must wait for it any more. Under mpi a loss ends the segment without this call.
  virtual void left(int rank) { static_cast<void>(rank); }
  // Its state when a segment of the run has ended: no request waits, and all workers have left.
  // A service that is loaded serves all workers again. As a rule a service without fields knows
  // nothing.
  virtual void fields(Archive& fields) { static_cast<void>(fields); }

  // The training clock where the service runs.
  Seconds now() const { return clock_(); }
  // Called by clusters, before the first request.
  void set_clock(std::function<Seconds()> clock) { clock_ = std::move(clock); }

 private:
  void handle_noted(int from, std::span<const std::byte> request, std::span<const float> payload,
                    std::unique_ptr<ReplyToken> reply, std::optional<Seconds> turned);
  std::function<Seconds()> clock_;
  std::shared_ptr<HandlerNotes> notes_;  // null: requests are not noted
};

// A request as bytes, and where its answer goes. Owns nothing.
struct ServiceCall {
  std::span<const std::byte> request;
  std::span<const float> payload;   // sent along
  Traffic kind = Traffic::control;  // kind of the payload
  // Their sizes are exactly those of the answer (checked where the handler gives it).
  std::span<std::byte> reply;
  std::span<float> reply_payload;
};

// A worker's untyped way to a service, as a cluster implements it. Belongs to the process that has
// opened it: another process of the same worker opens the service once more, which makes no second
// service. Not used after the run.
class ServicePort {
 public:
  virtual ~ServicePort() = default;
  // Blocks until the answer is here.
  void call(const ServiceCall& call);
  // The same without waiting for the answer. Copies the request; the other memory is the call's
  // until it is complete.
  Pending post(const ServiceCall& call);

 protected:
  // A cluster implements the calls of above, which note them (trace/noted_calls.cpp).
  virtual void call_raw(const ServiceCall& call) = 0;
  virtual std::unique_ptr<PendingCall> post_raw(const ServiceCall& call) = 0;

 private:
  friend class Endpoint;
  std::shared_ptr<PortNotes> notes_;  // null: calls are not noted
};

// Answers one request, once. Movable, not copyable: a handler moves it into a member to defer the
// answer. The payload's kind is that of the reply; the struct counts as control.
template <class Reply>
class Responder {
 public:
  explicit Responder(std::unique_ptr<ReplyToken> token) : token_(std::move(token)) {}
  void operator()(const Reply& reply, std::span<const float> payload = {},
                  Traffic kind = Traffic::parameters) {
    static_assert(std::is_trivially_copyable_v<Reply>);
    if (!token_) throw CheckFailure("a service's handler answered one request twice");
    token_->answer(std::as_bytes(std::span(&reply, 1)), payload, kind);
    token_.reset();
  }

 private:
  std::unique_ptr<ReplyToken> token_;
};

// Base class of services. Request and Reply travel as their bytes between processes of one program,
// so they must hold no pointers.
template <class RequestT, class ReplyT>
class Service : public ServiceHandler {
 public:
  using Request = RequestT;
  using Reply = ReplyT;
  static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

  virtual void handle(int from, const Request& request, std::span<const float> payload,
                      Responder<Reply> reply) = 0;
  // For sim: the cost of handling a request. The default is the cost of adding the payload to a
  // model of its size: two reads and a write of 4 bytes per element.
  virtual Work work(const Request& request, std::size_t payload_count) const {
    static_cast<void>(request);
    return {.operations = 0, .bytes = 12.0 * static_cast<double>(payload_count), .launches = 0};
  }

  void handle_raw(int from, std::span<const std::byte> request, std::span<const float> payload,
                  std::unique_ptr<ReplyToken> reply) final {
    handle(from, unpack(request), payload, Responder<Reply>(std::move(reply)));
  }
  Work work_raw(std::span<const std::byte> request, std::size_t payload_count) const final {
    return work(unpack(request), payload_count);
  }

 private:
  static Request unpack(std::span<const std::byte> bytes) {
    Request request;
    std::memcpy(&request, bytes.data(), sizeof(Request));
    return request;
  }
};

// A reply in flight, with the calls of a Pending. The reply lies on the heap, so that this object
// can be moved while the cluster writes to it.
template <class Reply>
class [[nodiscard]] PendingReply {
 public:
  PendingReply(std::unique_ptr<Reply> reply, Pending call)
      : reply_(std::move(reply)), call_(std::move(call)) {}
  PendingReply(PendingReply&&) noexcept = default;
  // The call that is replaced settles first: until then it writes to its reply.
  PendingReply& operator=(PendingReply&& other) noexcept {
    call_ = std::move(other.call_);
    reply_ = std::move(other.reply_);
    return *this;
  }
  // Returns when the reply, and what its payload goes to, is here.
  const Reply& wait() {
    call_.wait();
    return *reply_;
  }

 private:
  std::unique_ptr<Reply> reply_;
  Pending call_;  // last: it writes to the reply
};

// The end of a service that one process of a worker has opened. The payload of a request counts as
// `kind`, its struct as control.
template <class Request, class Reply>
class ServiceClient {
 public:
  explicit ServiceClient(std::shared_ptr<ServicePort> port) : port_(std::move(port)) {}

  // Blocks until the reply is here. reply_payload has exactly the size of the answer's (checked).
  Reply call(const Request& request, std::span<const float> payload = {},
             std::span<float> reply_payload = {}, Traffic kind = Traffic::gradients) {
    Reply reply;
    port_->call(raw(request, payload, kind, reply, reply_payload));
    return reply;
  }
  // Several may be in flight; their replies come in any order. Nobody may touch the payloads before
  // the reply was waited for.
  PendingReply<Reply> post(const Request& request, std::span<const float> payload = {},
                           std::span<float> reply_payload = {}, Traffic kind = Traffic::gradients) {
    auto reply = std::make_unique<Reply>();
    Pending call = port_->post(raw(request, payload, kind, *reply, reply_payload));
    return {std::move(reply), std::move(call)};
  }

 private:
  static ServiceCall raw(const Request& request, std::span<const float> payload, Traffic kind,
                         Reply& reply, std::span<float> reply_payload) {
    return {std::as_bytes(std::span(&request, 1)), payload, kind,
            std::as_writable_bytes(std::span(&reply, 1)), reply_payload};
  }

  std::shared_ptr<ServicePort> port_;
};

}  // namespace hetsgd
