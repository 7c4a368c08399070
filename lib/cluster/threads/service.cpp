#include "cluster/threads/service.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "cluster/realtime/waiting.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// Up to here (bytes) an answer's payload is copied under the mutex: that takes less than giving the
// mutex up and taking it again.
constexpr std::size_t kSmallPayload = 1024;

// Called by the caller, whose own breakdown counts it: the answering thread must not write to it.
void count_received(const QueueEntry& entry) {
  TimeBreakdown& mine = World::current().breakdown;
  mine.count(Traffic::control, 0, entry.call.reply.size());
  mine.count(entry.reply_kind, 0, entry.call.reply_payload.size_bytes());
}

}  // namespace

// The answer that a handler owes. Outlives its request only when the caller was unwound; then it
// answers nobody.
//
//   owed (entry_ set) --answer()--> answered (entry_ null)
//     |    |
//     |    +--forget_caller(): the caller was unwound--> void (entry_ null), answer() does nothing
//     +--destroyed--> the run ends with an error, unless it ends anyway
//
// Whichever thread has it may answer or destroy it; entry_ is guarded by the world's mutex.
class Token final : public ReplyToken {
 public:
  // Mutex held, as wherever entry_ is used.
  Token(ThreadsService& service, const std::string& name, QueueEntry& entry)
      : ReplyToken(name, entry.from, entry.call.reply.size(), entry.call.reply_payload.size()),
        service_(service),
        entry_(&entry) {
    entry.token = this;
  }

  // The error is raised without the mutex, which World::abort() takes itself. The entry is no
  // longer touched then: the abort lets the caller go, and the entry with it.
  ~Token() override {
    World& world = service_.world();
    {
      const auto lock = world.lock();
      if (!entry_) return;
      entry_->token = nullptr;
    }
    if (const auto error = unanswered(); error && !world.ends()) world.abort(error);
  }

  void forget_caller() { entry_ = nullptr; }

 private:
  void deliver(std::span<const std::byte> reply, std::span<const float> payload,
               Traffic kind) override;

  ThreadsService& service_;
  QueueEntry* entry_;  // null: nobody is to be answered
};

// The reply is small and copied under the mutex. A large payload is copied without it; `users` then
// keeps the caller where it is, even if the run is aborted meanwhile. So an abort has to be looked
// for at the end. Before the handler has returned the caller is not woken: it could not go on, and
// would only look twice.
void Token::deliver(std::span<const std::byte> reply, std::span<const float> payload,
                    Traffic kind) {
  World& world = service_.world();
  auto lock = world.lock();
  if (!entry_) return;
  QueueEntry& entry = *entry_;
  copy_bytes(entry.call.reply.data(), reply.data(), reply.size());
  const auto copy = [&] {
    copy_bytes(entry.call.reply_payload.data(), payload.data(), payload.size_bytes());
  };
  if (payload.size_bytes() > kSmallPayload) {
    ++entry.users;
    lock.unlock();
    const Seconds begin = world.now();
    copy();
    const Seconds end = world.now();
    lock = world.lock();
    --entry.users;
    entry.copying = end - begin;
  } else {
    copy();
  }
  entry.reply_kind = kind;
  entry.answered = true;
  entry.token = nullptr;
  entry_ = nullptr;
  if (entry.handled || world.aborting()) world.wake(*entry.caller);
}

// The handler lives as long as the service, which does not outlive the run and its world.
ThreadsService::ThreadsService(World& world, std::string name,
                               std::unique_ptr<ServiceHandler> handler)
    : world_(world), name_(std::move(name)), handler_(std::move(handler)) {
  handler_->set_clock([&world] { return world.now(); });
}

// The queue is a list through the entries themselves: a request allocates nothing, and takes the
// mutex for a few instructions. Requests that come before the service's thread serves wait there.
void ThreadsService::push(QueueEntry& entry) {
  (first_ ? last_->next : first_) = &entry;
  last_ = &entry;
  if (process_) world_.wake(*process_);
}

QueueEntry* ThreadsService::pop() {
  QueueEntry* entry = first_;
  first_ = entry->next;
  entry->next = nullptr;
  return entry;
}

// Called for an unwound caller, so its cost does not matter.
void ThreadsService::remove(const QueueEntry& entry) {
  QueueEntry* before = nullptr;
  for (QueueEntry** link = &first_; *link; link = &(*link)->next) {
    if (*link == &entry) {
      *link = entry.next;
      if (last_ == &entry) last_ = before;
      return;
    }
    before = *link;
  }
}

// A notice goes through the queue, behind the worker's own requests: when the handler hears that a
// worker has ended it has handled all that this worker asked for. lock(), not enter(): the caller
// holds the mutex of the list of services, with which it must not stop for a pause.
void ThreadsService::left(int rank) {
  const auto lock = world_.lock();
  notices_.push_back(std::make_unique<QueueEntry>());
  notices_.back()->from = rank;
  notices_.back()->is_notice = true;
  push(*notices_.back());
}

// The mutex is held but for the handler. For pauses a service that handles is at large, so the
// world stops only between requests; one that waits for work is blocked. An abort ends it there:
// what is still queued is never handled, and its callers forget it.
//
// The entry is marked as in use before the mutex is given up, and released by Finished, after which
// it must not be touched: the caller may be gone.
void ThreadsService::serve(Process& me) {
  const Until work([&] { return first_ || world_.finishing(); }, [] { return kServiceIdle; });
  auto lock = world_.enter();
  process_ = &me;
  while (true) {
    world_.block(lock, work);
    if (!first_) return;
    QueueEntry& entry = *pop();
    ++entry.users;
    std::unique_ptr<Token> token;
    if (!entry.is_notice) token = std::make_unique<Token>(*this, name_, entry);
    lock.unlock();
    struct Finished {  // also when the handler throws: the caller waits for it
      World& world;
      World::Lock& lock;
      QueueEntry& entry;
      ~Finished() {
        lock = world.lock();
        --entry.users;
        entry.handled = true;
        if (entry.caller) world.wake(*entry.caller);
      }
    } finished{world_, lock, entry};
    if (entry.is_notice) {
      handler_->left(entry.from);
    } else {
      handler_->handle_request(entry.from, entry.call.request, entry.call.payload,
                               std::move(token));
    }
  }
}

// Once the entry is in the queue the service has a pointer to it: its owner must not let it go
// without await() or settle(), whatever is thrown.
void ThreadsService::send(QueueEntry& entry) {
  const auto lock = enter_in_reach(world_);
  enqueue(entry);
}

// One critical section for both: a service that wakes up in between would meet the mutex taken
// again by its caller.
void ThreadsService::call(QueueEntry& entry) {
  auto lock = enter_in_reach(world_);
  enqueue(entry);
  await(entry, lock);
}

void ThreadsService::enqueue(QueueEntry& entry) {
  Process& me = World::current();
  HETSGD_CHECK(me.kind != ProcessKind::service);  // a handler must not block
  entry.caller = &me;
  entry.since = world_.now();
  me.breakdown.count(Traffic::control, entry.call.request.size(), 0);
  me.breakdown.count(entry.call.kind, entry.call.payload.size_bytes(), 0);
  push(entry);
}

namespace {

// The wait for an answer. `settles`: it cannot be interrupted, since an exception may already be on
// its way; instead an abort makes it ready once the entry is not in use.
class ForAnswer final : public Wait {
 public:
  ForAnswer(const World& world, const QueueEntry& entry, const std::string& service, bool settles)
      : world_(world), entry_(entry), service_(service), settles_(settles) {}
  bool ready() const override {
    return entry_.complete() || (settles_ && world_.aborting() && entry_.users == 0);
  }
  bool interruptible() const override { return !settles_ && entry_.users == 0; }
  std::string describe() const override { return blocked_in_call(service_); }

 private:
  const World& world_;
  const QueueEntry& entry_;
  const std::string& service_;
  const bool settles_;
};

}  // namespace

// Waiting is charged by hand, because a part of it is the copying of the answer: that is transfer,
// not waiting for somebody. The breakdown gets both or, if the run is aborted, neither.
void ThreadsService::await(QueueEntry& entry) {
  // lock(), not enter(): from here on block() unwinds, and the entry must be forgotten then.
  auto lock = world_.lock();
  await(entry, lock);
}

void ThreadsService::await(QueueEntry& entry, World::Lock& lock) {
  Process& me = World::current();
  entry.caller = &me;
  const Seconds since = world_.now();
  try {
    world_.block(lock, ForAnswer(world_, entry, name_, false), nullptr);
  } catch (...) {
    forget(entry);
    throw;
  }
  lock.unlock();
  count_received(entry);
  // The copy of a posted call's answer may have been made before this wait began: it then cost the
  // caller nothing.
  const Seconds blocked = world_.now() - since, copying = std::min(entry.copying, blocked);
  me.spend(&TimeBreakdown::communicate, copying);
  me.spend(&TimeBreakdown::wait, blocked - copying);
  world_.safepoint();
}

// Mutex held, the run has failed, and nobody uses the entry. Afterwards nothing refers to it:
// neither the queue nor a token, if the handler has kept one.
void ThreadsService::forget(QueueEntry& entry) {
  remove(entry);
  if (entry.token) entry.token->forget_caller();
}

// The end of a posted call that nobody waited for, or whose wait has thrown. The handler wakes the
// caller when it returns, an answer when it finds an abort.
void ThreadsService::settle(QueueEntry& entry, bool failing) noexcept {
  auto lock = world_.lock();
  if (failing && !entry.complete()) world_.fail_with_what_unwinds();
  entry.caller = &World::current();
  world_.block(lock, ForAnswer(world_, entry, name_, true));
  entry.complete() ? count_received(entry) : forget(entry);
}

// The request is handled where it lies: views on the host of device payloads, and the entry itself,
// stay on this stack until await() has returned.
void ThreadsPort::call_raw(const ServiceCall& call) {
  HostedCall hosted(call);
  QueueEntry entry{.from = rank_, .call = hosted.on_host};
  service_->call(entry);
  hosted.target.store();
}

// A call that goes on while its caller computes: what call_raw() has on its stack, on the heap. The
// request is copied, as the caller's may be gone by then; views of device payloads have scratch
// memory of their own, since the process's staging is used by its next call. The payload to send is
// copied from the device when the call is posted, the answer's to it in wait().
class ThreadsPort::Posted final : public PendingCall {
 public:
  Posted(std::shared_ptr<ThreadsService> service, int rank, const ServiceCall& call)
      : service_(std::move(service)),
        request_(call.request.begin(), call.request.end()),
        hosted_(call, &scratch_),
        entry_{.from = rank, .call = hosted_.on_host} {
    entry_.call.request = request_;
    service_->send(entry_);
  }

  CallTime wait() override {
    service_->await(entry_);
    hosted_.target.store();
    return {entry_.since, service_->world().now()};
  }
  void settle(bool failing) noexcept override { service_->settle(entry_, failing); }

 private:
  const std::shared_ptr<ThreadsService> service_;
  const std::vector<std::byte> request_;
  std::array<HostScratch, 2> scratch_;
  HostedCall hosted_;
  QueueEntry entry_;
};

std::unique_ptr<PendingCall> ThreadsPort::post_raw(const ServiceCall& call) {
  return std::make_unique<Posted>(service_, rank_, call);
}

}  // namespace hetsgd::threads
