#include "cluster/mpi/service.hpp"

#include <array>
#include <cstring>
#include <optional>

#include "cluster/blocking.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// Payloads begin at multiples of this in a message.
constexpr std::size_t kAlignment = 64;

std::size_t padding(std::size_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

// The answer that a handler owes. It lives as long as the handler keeps it, and is used on the
// service's process; the transport and the service's name outlive it.
class Token final : public ReplyToken {
 public:
  Token(Transport& transport, const std::string& service, int from, const RequestInfo& request)
      : ReplyToken(service, from, static_cast<std::size_t>(request.reply_bytes),
                   request.reply_payload_count),
        transport_(transport),
        from_(from),
        caller_(request.caller) {}

  ~Token() override {
    World& world = transport_.world();
    if (const auto error = unanswered(); error && !world.ends()) world.abort(error);
  }

 private:
  void deliver(std::span<const std::byte> reply, std::span<const float> payload,
               Traffic kind) override {
    const std::span<const std::byte> parts[] = {reply, std::as_bytes(payload)};
    transport_.send(from_, transport_.tags().answer(caller_), parts, kind);
  }

  Transport& transport_;
  const int from_, caller_;
};

}  // namespace

// FNV-1a, folded to the bits of a tag.
int service_number(const std::string& name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<int>((hash ^ hash >> Tags::kUserBits) % Tags::kUserTags);
}

// --- the server

MpiService::MpiService(Transport& transport, std::string name,
                       std::unique_ptr<ServiceHandler> handler, const std::atomic<bool>& ended,
                       std::function<int(int)> rank_of)
    : transport_(transport),
      name_(std::move(name)),
      number_(service_number(name_)),
      ended_(ended),
      rank_of_(std::move(rank_of)),
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
    // The handler runs without the mutex, which the channel's thread takes.
    left.swap(left_);
    notices_ = false;
  }
  for (const int rank : left) handler_->left(rank);
  return true;
}

// A request, a notice or the end, whichever comes first. A request goes first: its caller waits,
// and nobody waits for a notice to be handled before.
class MpiService::Idle final : public Poll {
 public:
  Idle(MpiService& service, HeadReceive& head) : service_(service), head_(head) {}
  bool done() override {
    if (head_.done()) return requested = true;
    return service_.notices_ || service_.ended_;
  }
  bool cancel() override { return requested = head_.cancel(); }
  std::string describe() const override { return std::string(kServiceIdle); }
  bool idles() const override { return true; }

  bool requested = false;

 private:
  MpiService& service_;
  HeadReceive& head_;
};

//              head complete             handle() has returned
//    idle -------------------> handling ----------------------> idle, with a new receive
//      |  a worker has left: the handler is told; the receive stays posted
//      |  all have ended, and no notice is left
//      +---------------------> returns, and cancels the receive
void MpiService::serve() {
  World& world = transport_.world();
  while (true) {
    // One receive at a time: requests that come meanwhile wait in MPI, in the order of arrival.
    HeadReceive head(transport_, kAnySource, transport_.tags().request(number_),
                     [](int, int) { return std::string(kServiceIdle); });
    Idle idle(*this, head);
    while (!idle.requested) {
      poll_until(world, idle, nullptr);
      if (!idle.requested && !handle_notices() && ended_) return;
    }
    handle(head);
  }
}

void MpiService::handle(HeadReceive& head) {
  // The whole request, its payload included, comes into memory that is used again for the next one:
  // a handler must copy what it keeps.
  const std::size_t bytes = head.info().bytes;
  std::byte* message = message_.reserve(bytes);
  head.take(std::span(message, bytes));
  RequestInfo info;
  std::memcpy(&info, message, sizeof info);
  const auto request_bytes = static_cast<std::size_t>(info.request_bytes);
  const std::size_t before = sizeof info + request_bytes, payload = before + padding(before);
  handler_->handle_request(rank_of_(head.source()), {message + sizeof info, request_bytes},
                           {reinterpret_cast<const float*>(message + payload), info.payload_count},
                           std::make_unique<Token>(transport_, name_, head.source(), info));
}

// --- the caller

// One call, from the request's leaving to the answer.
class MpiPort::Call {
 public:
  // waits: the caller waits from now on, so the receive is posted first, and the answer finds it.
  // Else await() posts the receive: the sender of an answer takes a posted receive for a caller
  // that waits, and would itself wait for a process that computes.
  Call(MpiPort& port, int caller, bool waits, const ServiceCall& call)
      : transport_(port.transport_),
        host_(port.host_),
        caller_(caller),
        reply_(call.reply),
        reply_payload_(std::as_writable_bytes(call.reply_payload)) {
    Process& me = World::current();
    // The receive is posted before the request leaves, because the answer may come at once.
    if (waits) post_receive();
    const RequestInfo info{.caller = caller,
                           .request_bytes = static_cast<std::int32_t>(call.request.size()),
                           .payload_count = call.payload.size(),
                           .reply_payload_count = call.reply_payload.size(),
                           .reply_bytes = static_cast<std::int32_t>(call.reply.size())};
    static constexpr std::byte kZeros[kAlignment] = {};
    const std::span<const std::byte> parts[] = {
        std::as_bytes(std::span(&info, 1)), call.request,
        std::span(kZeros).first(padding(sizeof info + call.request.size())),
        std::as_bytes(call.payload)};
    me.breakdown.count(Traffic::control, call.request.size(), 0);
    me.breakdown.count(call.kind, call.payload.size_bytes(), 0);
    World& world = transport_.world();
    begin_ = world.now();
    transport_.send(host_, transport_.tags().request(port.number_), parts, call.kind);
    me.spend(&TimeBreakdown::communicate, world.now() - begin_);
  }

  // Returns when the answer is here. The reply lies in the head, as it is small; most of the
  // payload goes straight to its place.
  void await() {
    if (!receive_) post_receive();
    HeadReceive& head = *receive_;
    poll_until(transport_.world(), head);
    const auto first = head.data();
    // The answer's size was checked by the sender's Token against the request.
    HETSGD_CHECK_GE(kHeadData, reply_.size());
    HETSGD_CHECK_EQ(head.info().bytes, reply_.size() + reply_payload_.size());
    if (!reply_.empty()) std::memcpy(reply_.data(), first.data(), reply_.size());
    const auto begun = first.subspan(reply_.size());
    if (!begun.empty()) std::memcpy(reply_payload_.data(), begun.data(), begun.size());
    head.take_rest(reply_payload_.subspan(begun.size()));
    TimeBreakdown& mine = World::current().breakdown;
    mine.count(Traffic::control, 0, reply_.size());
    mine.count(static_cast<Traffic>(head.info().kind), 0, reply_payload_.size());
  }
  Seconds begin() const { return begin_; }

 private:
  void post_receive() {
    receive_.emplace(transport_, host_, transport_.tags().answer(caller_),
                     [](int, int) { return std::string("waits for a service"); });
  }

  Transport& transport_;
  const int host_, caller_;
  const std::span<std::byte> reply_, reply_payload_;
  std::optional<HeadReceive> receive_;  // receives the answer's head
  Seconds begin_{0};
};

// A handler must not block: the service that it calls could be its own.
void MpiPort::call_raw(const ServiceCall& call) {
  World& world = transport_.world();
  const Process& me = World::current();
  HETSGD_CHECK(me.kind != ProcessKind::service);
  reach(world);
  HostedCall hosted(call);
  Call(*this, CallerNumbers::of_process(me.number), true, hosted.on_host).await();
  hosted.target.store();
  world.safepoint();
}

class MpiPort::Posted final : public PendingCall {
 public:
  Posted(MpiPort& port, const ServiceCall& call)
      : world_(port.transport_.world()),
        hosted_(call, &scratch_),
        call_(port, port.callers_.of_post(), false, hosted_.on_host) {}

  CallTime wait() override {
    world_.safepoint();
    call_.await();
    hosted_.target.store();
    world_.safepoint();
    return {call_.begin(), world_.now()};
  }
  // Nothing is written to the reply before somebody waits for it, so a failing run need not wait
  // here.
  void settle(bool failing) noexcept override {
    if (failing) return;
    try {
      wait();
    } catch (...) {  // the run has failed, and the next call of the vocabulary says so
    }
  }

 private:
  World& world_;
  // The posted call outlives the call of the vocabulary that posts it, and the next one uses the
  // staging.
  std::array<HostScratch, 2> scratch_;
  HostedCall hosted_;
  Call call_;
};

std::unique_ptr<PendingCall> MpiPort::post_raw(const ServiceCall& call) {
  HETSGD_CHECK(World::current().kind != ProcessKind::service);
  reach(transport_.world());
  return std::make_unique<Posted>(*this, call);
}

}  // namespace hetsgd::mpi
