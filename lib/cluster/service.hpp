// Service: a central role (scheduler, parameter server, state server, controller) as a serial
// request handler whose reply may be deferred. The one mechanism for every central part in the
// papers.
//
// A request is a small trivially copyable struct plus an optional vector of numbers (a gradient, a
// model);
// so is a reply. Requests are handled one at a time in order of arrival (equal virtual times:
// lowest rank).
// In `sim` handling is an event that takes service time, in `threads` a thread, in `mpi` a thread
// beside rank 0 or of a rank of its own.
// The handler must not call anything that blocks; it may keep the Responder and answer during a
// later request.
//
//   struct Ask { int batch_size; };  struct Grant { SampleRange range; };
//   class Scheduler final : public Service<Ask, Grant> {
//     void handle(int from, const Ask& ask, std::span<const float>,
//                 Responder<Grant> reply) override { ... }
//   };
//   auto scheduler = serve<Scheduler>(node, "scheduler", options);   // same call on every rank
//   Grant grant = scheduler.call(Ask{64});
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "cluster/ledger.hpp"
#include "core/units.hpp"

namespace hetsgd {

// One pending answer. Must be given exactly once; dropping it unanswered is a check failure unless
// the run is being torn down.
class ReplyToken {
 public:
  virtual ~ReplyToken() = default;
  virtual void answer(std::span<const std::byte> reply, std::span<const float> payload,
                      Traffic kind) = 0;
};

// The untyped form that clusters carry.
class ServiceHandler {
 public:
  virtual ~ServiceHandler() = default;
  virtual void handle_raw(int from, std::span<const std::byte> request,
                          std::span<const float> payload, std::unique_ptr<ReplyToken> reply) = 0;
  // Service time on the server's device beyond the transfer, e.g. the bytes of an update.
  virtual Work work_raw(std::span<const std::byte> request, std::size_t payload_count) const = 0;
  // Called once when worker `rank` has ended (its main process returned): nobody must wait for it
  // any more.
  virtual void left(int rank) { static_cast<void>(rank); }

  // The training clock where the service runs.
  Seconds now() const { return clock_(); }
  // For clusters, before the first request.
  void set_clock(std::function<Seconds()> clock) { clock_ = std::move(clock); }

 private:
  std::function<Seconds()> clock_;
};

class ServicePort {
 public:
  virtual ~ServicePort() = default;
  // Blocks until the answer is here. payload is sent along; reply_payload must have exactly the
  // size of the answer's payload (checked).
  virtual void call_raw(std::span<const std::byte> request, std::span<const float> payload,
                        Traffic kind, std::span<std::byte> reply,
                        std::span<float> reply_payload) = 0;
};

template <class Reply>
class Responder {
 public:
  explicit Responder(std::unique_ptr<ReplyToken> token) : token_(std::move(token)) {}
  void operator()(const Reply& reply, std::span<const float> payload = {},
                  Traffic kind = Traffic::parameters) {
    static_assert(std::is_trivially_copyable_v<Reply>);
    token_->answer(std::as_bytes(std::span(&reply, 1)), payload, kind);
    token_.reset();
  }

 private:
  std::unique_ptr<ReplyToken> token_;
};

template <class RequestT, class ReplyT>
class Service : public ServiceHandler {
 public:
  using Request = RequestT;
  using Reply = ReplyT;
  static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

  virtual void handle(int from, const Request& request, std::span<const float> payload,
                      Responder<Reply> reply) = 0;
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

// A worker's end of a service.
template <class Request, class Reply>
class ServiceClient {
 public:
  explicit ServiceClient(std::shared_ptr<ServicePort> port) : port_(std::move(port)) {}

  Reply call(const Request& request, std::span<const float> payload = {},
             std::span<float> reply_payload = {}, Traffic kind = Traffic::gradients) {
    Reply reply;
    port_->call_raw(std::as_bytes(std::span(&request, 1)), payload, kind,
                    std::as_writable_bytes(std::span(&reply, 1)), reply_payload);
    return reply;
  }

 private:
  std::shared_ptr<ServicePort> port_;
};

}  // namespace hetsgd
