#include "cluster/threads/service.hpp"

#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/threads/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// Up to here an answer's payload is copied under the mutex.
constexpr std::size_t kSmallPayload = 1024;

}  // namespace

// The answer that a handler owes. Outlives its request only when the caller was unwound; then it
// answers nobody.
class Token final : public ReplyToken {
 public:
  // Mutex held, as wherever entry_ is used.
  Token(ThreadsService& service, QueueEntry& entry) : service_(service), entry_(&entry) {
    entry.token = this;
  }

  ~Token() override {
    World& world = service_.world();
    {
      const auto lock = world.lock();
      if (!entry_) return;
      entry_->token = nullptr;
      // When the handler throws, that is the error to report.
      if (world.aborting() || std::uncaught_exceptions() > 0) return;
    }
    world.abort(std::make_exception_ptr(
        CheckFailure(fmt::format("{} dropped a request of rank {} without an answer",
                                 service_name(service_.name()), from_))));
  }

  void answer(std::span<const std::byte> reply, std::span<const float> payload,
              Traffic kind) override;
  void forget_caller() { entry_ = nullptr; }

 private:
  ThreadsService& service_;
  QueueEntry* entry_;
  int from_ = entry_->from;
};

void Token::answer(std::span<const std::byte> reply, std::span<const float> payload, Traffic kind) {
  World& world = service_.world();
  auto lock = world.lock();
  if (!entry_) return;
  QueueEntry& entry = *entry_;
  if (reply.size() != entry.reply.size() || payload.size() != entry.reply_payload.size()) {
    throw CheckFailure(fmt::format(
        "{} answers rank {} with {} bytes and {} numbers, which expects {} bytes and {}",
        service_name(service_.name()), from_, reply.size(), payload.size(), entry.reply.size(),
        entry.reply_payload.size()));
  }
  if (!reply.empty()) std::memcpy(entry.reply.data(), reply.data(), reply.size());
  if (payload.size_bytes() > kSmallPayload) {
    ++entry.users;
    lock.unlock();
    const Seconds begin = world.now();
    std::memcpy(entry.reply_payload.data(), payload.data(), payload.size_bytes());
    const Seconds end = world.now();
    lock = world.lock();
    --entry.users;
    entry.copying = end - begin;
  } else if (!payload.empty()) {
    std::memcpy(entry.reply_payload.data(), payload.data(), payload.size_bytes());
  }
  entry.reply_kind = kind;
  entry.answered = true;
  entry.token = nullptr;
  entry_ = nullptr;
  if (entry.handled || world.aborting()) world.wake(*entry.caller);
}

ThreadsService::ThreadsService(World& world, std::string name,
                               std::unique_ptr<ServiceHandler> handler)
    : world_(world), name_(std::move(name)), handler_(std::move(handler)) {
  handler_->set_clock([&world] { return world.now(); });
}

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

void ThreadsService::left(int rank) {
  const auto lock = world_.lock();
  notices_.push_back(std::make_unique<QueueEntry>());
  notices_.back()->from = rank;
  notices_.back()->is_notice = true;
  push(*notices_.back());
}

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
    if (!entry.is_notice) token = std::make_unique<Token>(*this, entry);
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
      handler_->handle_raw(entry.from, entry.request, entry.payload, std::move(token));
    }
  }
}

void ThreadsService::call(int from, std::span<const std::byte> request,
                          std::span<const float> payload, Traffic kind, std::span<std::byte> reply,
                          std::span<float> reply_payload) {
  Process& me = World::current();
  HETSGD_CHECK(me.kind != ProcessKind::service);  // a handler must not block
  class ForAnswer final : public Wait {
   public:
    ForAnswer(const QueueEntry& entry, const std::string& service)
        : entry_(entry), service_(service) {}
    bool ready() const override { return entry_.answered && entry_.handled; }
    bool interruptible() const override { return entry_.users == 0; }
    std::string describe() const override { return blocked_in_call(service_); }

   private:
    const QueueEntry& entry_;
    const std::string& service_;
  };
  QueueEntry entry{.from = from,
                   .caller = &me,
                   .request = request,
                   .payload = payload,
                   .reply = reply,
                   .reply_payload = reply_payload};
  const auto add = [](auto& bytes, Traffic of, std::size_t n) {
    bytes[static_cast<std::size_t>(of)] += n;
  };
  auto lock = world_.enter();
  const Seconds since = world_.now();
  add(me.ledger.bytes_sent, Traffic::control, request.size());
  add(me.ledger.bytes_sent, kind, payload.size_bytes());
  push(entry);
  try {
    world_.block(lock, ForAnswer(entry, name_), nullptr);
  } catch (...) {
    remove(entry);
    if (entry.token) entry.token->forget_caller();
    throw;
  }
  lock.unlock();
  add(me.ledger.bytes_received, Traffic::control, reply.size());
  add(me.ledger.bytes_received, entry.reply_kind, reply_payload.size_bytes());
  me.ledger.communicate += entry.copying;
  me.ledger.wait += world_.now() - since - entry.copying;
  world_.safepoint();
}

void ThreadsPort::call_raw(std::span<const std::byte> request, std::span<const float> payload,
                           Traffic kind, std::span<std::byte> reply,
                           std::span<float> reply_payload) {
  const HostMemory source(payload.data(), payload.size_bytes());
  HostMemory target(HostMemory::Use::write, reply_payload.data(), reply_payload.size_bytes());
  service_->call(rank_, request, {reinterpret_cast<const float*>(source.data()), payload.size()},
                 kind, reply, {reinterpret_cast<float*>(target.data()), reply_payload.size()});
  target.store();
}

}  // namespace hetsgd::threads
