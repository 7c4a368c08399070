#include "cluster/mpi/service.hpp"

#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/threads/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

using threads::HostMemory;
using threads::ProcessKind;

namespace {

// Payloads begin at multiples of this in a message, for vector loads.
constexpr std::size_t kAlignment = 64;

std::size_t padding(std::size_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

// The answer that a handler owes.
class Token final : public ReplyToken {
 public:
  Token(Transport& transport, const std::string& service, int from, const RequestInfo& request)
      : transport_(transport), service_(service), from_(from), request_(request) {}

  ~Token() override {
    World& world = transport_.world();
    // When the handler throws, that is the error to report.
    if (answered_ || world.aborting() || std::uncaught_exceptions() > 0) return;
    world.abort(std::make_exception_ptr(CheckFailure(fmt::format(
        "{} dropped a request of rank {} without an answer", service_name(service_), from_))));
  }

  void answer(std::span<const std::byte> reply, std::span<const float> payload,
              Traffic kind) override {
    if (reply.size() != static_cast<std::size_t>(request_.reply_bytes) ||
        payload.size() != request_.reply_payload_count) {
      throw CheckFailure(fmt::format(
          "{} answers rank {} with {} bytes and {} numbers, which expects {} bytes and {}",
          service_name(service_), from_, reply.size(), payload.size(), request_.reply_bytes,
          request_.reply_payload_count));
    }
    const std::span<const std::byte> parts[] = {reply, std::as_bytes(payload)};
    transport_.send(from_, transport_.tags().answer(request_.caller), parts, kind);
    answered_ = true;
  }

 private:
  Transport& transport_;
  const std::string& service_;
  const int from_;
  const RequestInfo request_;
  bool answered_ = false;
};

}  // namespace

// FNV-1a.
int service_number(const std::string& name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<int>((hash ^ hash >> Tags::kUserBits) % Tags::kUserTags);
}

// --- the server

MpiService::MpiService(Transport& transport, std::string name,
                       std::unique_ptr<ServiceHandler> handler, const std::atomic<bool>& ended)
    : transport_(transport),
      name_(std::move(name)),
      number_(service_number(name_)),
      ended_(ended),
      handler_(std::move(handler)) {
  handler_->set_clock([&world = transport.world()] { return world.now(); });
}

void MpiService::left(int rank) {
  const std::lock_guard guard(mutex_);
  left_.push_back(rank);
  notices_ = true;
}

bool MpiService::handle_notices() {
  if (!notices_) return false;
  std::deque<int> left;
  {
    const std::lock_guard guard(mutex_);
    left.swap(left_);
    notices_ = false;
  }
  for (const int rank : left) handler_->left(rank);
  return true;
}

// A request, a notice or the end, whichever comes first.
class MpiService::Idle final : public threads::Poll {
 public:
  Idle(MpiService& service, HeadReceive& head) : service_(service), head_(head) {}
  bool done() override {
    if (head_.done()) return requested = true;
    return service_.notices_ || service_.ended_;
  }
  void cancel() override { head_.cancel(); }
  std::string describe() const override { return std::string(kServiceIdle); }

  bool requested = false;

 private:
  MpiService& service_;
  HeadReceive& head_;
};

void MpiService::serve() {
  World& world = transport_.world();
  while (true) {
    HeadReceive head(transport_, kAnySource, transport_.tags().request(number_),
                     [](int, int) { return std::string(kServiceIdle); });
    Idle idle(*this, head);
    while (!idle.requested) {
      world.poll_until(idle, nullptr);
      if (!idle.requested && !handle_notices() && ended_) return;
    }
    handle(head);
  }
}

void MpiService::handle(HeadReceive& head) {
  const std::size_t bytes = head.info().bytes;
  std::byte* message = message_.reserve(bytes);
  head.take(std::span(message, bytes));
  RequestInfo info;
  std::memcpy(&info, message, sizeof info);
  const auto request_bytes = static_cast<std::size_t>(info.request_bytes);
  const std::size_t before = sizeof info + request_bytes, payload = before + padding(before);
  handler_->handle_raw(head.source(), {message + sizeof info, request_bytes},
                       {reinterpret_cast<const float*>(message + payload), info.payload_count},
                       std::make_unique<Token>(transport_, name_, head.source(), info));
}

// --- the caller

void MpiPort::call_raw(std::span<const std::byte> request, std::span<const float> payload,
                       Traffic kind, std::span<std::byte> reply, std::span<float> reply_payload) {
  World& world = transport_.world();
  threads::Process& me = World::current();
  HETSGD_CHECK(me.kind != ProcessKind::service);  // a handler must not block
  world.safepoint();
  const HostMemory source(payload.data(), payload.size_bytes());
  HostMemory target(HostMemory::Use::write, reply_payload.data(), reply_payload.size_bytes());
  const RequestInfo info{.caller = caller_,
                         .request_bytes = static_cast<std::int32_t>(request.size()),
                         .payload_count = payload.size(),
                         .reply_payload_count = reply_payload.size(),
                         .reply_bytes = static_cast<std::int32_t>(reply.size())};
  static constexpr std::byte kZeros[kAlignment] = {};
  const std::span<const std::byte> parts[] = {
      std::as_bytes(std::span(&info, 1)),
      request,
      std::span(kZeros).first(padding(sizeof info + request.size())),
      {source.data(), payload.size_bytes()}};
  const auto add = [](auto& bytes, Traffic of, std::size_t n) {
    bytes[static_cast<std::size_t>(of)] += n;
  };
  add(me.ledger.bytes_sent, Traffic::control, request.size());
  add(me.ledger.bytes_sent, kind, payload.size_bytes());
  // The receive is posted first, so that the answer finds it.
  HeadReceive head(transport_, host_, transport_.tags().answer(caller_),
                   [](int, int) { return std::string("waits for a service"); });
  const Seconds begin = world.now();
  transport_.send(host_, transport_.tags().request(number_), parts, kind);
  me.ledger.communicate += world.now() - begin;
  world.poll_until(head);
  receive_answer(head, reply, {target.data(), reply_payload.size_bytes()});
  add(me.ledger.bytes_received, Traffic::control, reply.size());
  add(me.ledger.bytes_received, static_cast<Traffic>(head.info().kind), reply_payload.size_bytes());
  target.store();
  world.safepoint();
}

// The reply lies in the head; most of the payload goes straight to its place.
void MpiPort::receive_answer(HeadReceive& head, std::span<std::byte> reply,
                             std::span<std::byte> payload) {
  const auto first = head.data();
  HETSGD_CHECK_GE(kHeadData, reply.size());
  HETSGD_CHECK_EQ(head.info().bytes, reply.size() + payload.size());
  if (!reply.empty()) std::memcpy(reply.data(), first.data(), reply.size());
  const auto begun = first.subspan(reply.size());
  if (!begun.empty()) std::memcpy(payload.data(), begun.data(), begun.size());
  head.take_rest(payload.subspan(begun.size()));
}

}  // namespace hetsgd::mpi
