#include "cluster/service.hpp"

#include "cluster/blocking.hpp"
#include "cluster/trace/trace.hpp"
#include "core/error.hpp"

namespace hetsgd {

// The notes of a service on its requests, for a record that `hetsgd replay` times again
// (TraceDetail::causes). The line of the service has a range per request, of category "served":
// `begin` is when the service turned to it, `end` when it had handled it. `peer` is the rank that
// asked, and `number` counts the requests of that rank.
//
// A service that is made from serialised arguments, in another process (mpi), has no notes: calls
// of it keep their recorded time.
struct HandlerNotes {
  const ServiceHandler& handler;
  const Trace& trace;
  CallLog& calls;
  std::map<int, std::uint64_t>& requests;  // of each rank so far
  std::uint32_t label;
  std::optional<std::uint64_t> handling = {};  // place in the line of the request that is handled
};

// The answer to the request at `place` of the line, whose range is open until the answer goes.
class AnswerNotes : NonCopyable {
 public:
  AnswerNotes(const HandlerNotes& service, std::uint64_t place, const CallLog::Open& call)
      : service_(service), calls_(service.calls), place_(place), call_(call) {}
  ~AnswerNotes() { calls_.close(call_); }
  // An answer at the end of a worker comes during no request, so it depends on its own alone.
  void answered() const {
    call_.cell->cause = {
        .rank = 0, .calls = service_.handling.value_or(place_), .time = service_.handler.now()};
  }

 private:
  const HandlerNotes& service_;
  CallLog& calls_;  // an answer that is never given may go after the service
  const std::uint64_t place_;
  const CallLog::Open call_;
};

void ReplyToken::answer(std::span<const std::byte> reply, std::span<const float> payload,
                        Traffic kind) {
  HETSGD_CHECK(!answered_);
  if (reply.size() != reply_bytes_ || payload.size() != payload_count_) {
    throw CheckFailure(fmt::format(
        "{} answers rank {} with {} bytes and {} elements, which expects {} bytes and {}",
        service_name(service_), from_, reply.size(), payload.size(), reply_bytes_, payload_count_));
  }
  if (notes_) notes_->answered();
  deliver(reply, payload, kind);
  answered_ = true;
}

std::exception_ptr ReplyToken::unanswered() const {
  if (answered_ || std::uncaught_exceptions() > 0) return nullptr;
  return std::make_exception_ptr(CheckFailure(fmt::format(
      "{} dropped a request of rank {} without an answer", service_name(service_), from_)));
}

void ServiceHandler::note_requests(Trace& trace, const std::string& service) {
  CallLog& calls = trace.service(service).calls;
  const std::uint32_t label = calls.label({.category = "served", .kind = CallKind::served});
  notes_ = std::make_shared<HandlerNotes>(
      HandlerNotes{*this, trace, calls, trace.handled(service), label});
}

void ServiceHandler::handle_request(int from, std::span<const std::byte> request,
                                    std::span<const float> payload,
                                    std::unique_ptr<ReplyToken> reply,
                                    std::optional<Seconds> turned) {
  if (!notes_) return handle_raw(from, request, payload, std::move(reply));
  handle_noted(from, request, payload, std::move(reply), turned);
}

void ServiceHandler::handle_noted(int from, std::span<const std::byte> request,
                                  std::span<const float> payload, std::unique_ptr<ReplyToken> reply,
                                  std::optional<Seconds> turned) {
  CallCell cell{.label = notes_->label,
                .bytes = request.size() + payload.size_bytes(),
                .number = notes_->requests[from]++,
                .peer = from};
  // A set-up is not on the clock.
  if (!notes_->trace.is_set_up()) return handle_raw(from, request, payload, std::move(reply));
  cell.begin = cell.end = turned ? *turned : now();
  const std::uint64_t place = notes_->calls.calls();
  const CallLog::Open call = notes_->calls.open(cell);
  reply->notes_ = std::make_shared<AnswerNotes>(*notes_, place, call);
  notes_->handling = place;
  handle_raw(from, request, payload, std::move(reply));
  notes_->handling.reset();
  call.cell->end = now();
}

}  // namespace hetsgd
