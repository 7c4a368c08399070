#include "cluster/mpi/channel.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/rank_index.hpp"
#include "core/threads.hpp"

namespace hetsgd::mpi {

namespace {

using Clock = std::chrono::steady_clock;

// Heartbeats: rank 0 to all, all to rank 0. Messages of this kind have no content and no handler.
constexpr int kBeat = -1000;
constexpr Seconds kBeatInterval{0.5}, kShortestBeat{1e-3};
// The number of heartbeats that leave in the time after which a silent rank is lost: one that is
// late does no harm.
constexpr int kBeatsInTimeout = 5;
constexpr int kTag = 0;
// The sleeps of Pace::soon and the longest ones of Pace::calm, and how fast they grow.
constexpr Seconds kSoon{200e-6}, kCalm{1e-3};
constexpr double kSlowing = 1.25;

}  // namespace

Channel::Channel(MPI_Comm comm) : comm_(comm), beat_interval_(kBeatInterval) {
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  heard_.assign(static_cast<std::size_t>(size_), Clock::now());
}

// The message is not sent here: MPI is called by the channel's thread alone, and the caller may
// hold a mutex.
void Channel::send(int to, int kind, std::span<const std::byte> bytes) {
  auto message = std::make_unique<Message>();
  message->peer = to;
  message->kind = kind;
  // On the wire the kind comes first.
  message->bytes.resize(sizeof(int) + bytes.size());
  std::memcpy(message->bytes.data(), &kind, sizeof kind);
  if (!bytes.empty()) std::memcpy(message->bytes.data() + sizeof kind, bytes.data(), bytes.size());
  const std::lock_guard guard(mutex_);
  outbox_.push_back(std::move(message));
  wake_.notify_one();
}

void Channel::on_message(int kind, Handler handler) {
  const std::lock_guard guard(mutex_);
  handlers_[kind] = std::move(handler);
  handlers_changed_ = true;
}

void Channel::start(std::function<Pace()> hook, std::function<void(std::exception_ptr)> on_error) {
  hook_ = std::move(hook);
  on_error_ = std::move(on_error);
  thread_ = start_thread<std::thread>("control messages", [this] {
    // Handlers' exceptions are caught in deliver(); what comes here is an error of MPI, or of the
    // hook, and the thread cannot go on without either.
    try {
      loop();
    } catch (...) {
      on_error_(std::current_exception());
    }
  });
}

void Channel::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  // Without this the thread would see it at the end of its sleep.
  wake_.notify_one();
  thread_.join();
}

void Channel::beat_within(Seconds timeout) {
  // The interval never grows: its upper bound is the interval so far.
  beat_interval_ = std::clamp(timeout / kBeatsInTimeout, kShortestBeat, Seconds(beat_interval_));
}

Seconds Channel::silence(int rank) const { return Clock::now() - heard_[at(rank)]; }

void Channel::look() {
  const std::lock_guard guard(mutex_);
  look_ = true;
  wake_.notify_one();
}

void Channel::loop() {
  Seconds sleep = kSoon;
  while (true) {
    // Messages that wait for a handler come before new ones of their kind.
    bool busy = deliver_late();
    busy |= send_what_waits();
    busy |= finish(sending_, false);
    busy |= receive();
    busy |= finish(receiving_, true);
    beat();
    const Pace pace = hook_();
    sleep = pace == Pace::calm && !busy ? std::min(kSlowing * sleep, kCalm) : kSoon;
    if (pace == Pace::at_once) sched_yield();
    if (busy || pace == Pace::at_once) continue;
    std::unique_lock guard(mutex_);
    // The thread ends only here, with the mutex: nothing is in the outbox, and no send is in
    // flight.
    if (stopping_ && outbox_.empty() && sending_.empty()) return;
    if (!outbox_.empty() || std::exchange(look_, false)) continue;
    // A send in flight may need MPI to be called to advance.
    wake_.wait_for(guard, sending_.empty() ? sleep : kSoon);
  }
}

bool Channel::send_what_waits() {
  std::deque<std::unique_ptr<Message>> out;
  {
    const std::lock_guard guard(mutex_);
    // The mutex is not held while MPI or handlers run; these may send.
    out.swap(outbox_);
  }
  const bool any = !out.empty();
  for (auto& message : out) {
    if (message->peer == rank_) {
      // A message to this rank does without MPI. It is handled after all that was sent before it,
      // also to itself.
      message->bytes.erase(message->bytes.begin(), message->bytes.begin() + sizeof(int));
      deliver(std::move(message));
      continue;
    }
    check(MPI_Isend(message->bytes.data(), static_cast<int>(message->bytes.size()), MPI_BYTE,
                    message->peer, kTag, comm_, &message->request),
          "MPI_Isend");
    sending_.push_back(std::move(message));
  }
  return any;
}

// Large messages are received while others go on: two ranks that waited for each other's would
// stand still.
bool Channel::receive() {
  bool any = false;
  while (true) {
    int found = 0;
    MPI_Message handle;
    MPI_Status status;
    // Matched probes: the message that was found is the one that is received, also if another
    // thread of the process were to receive on this communicator.
    check(MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &found, &handle, &status), "MPI_Improbe");
    if (!found) return any;
    any = true;
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    auto message = std::make_unique<Message>();
    message->peer = status.MPI_SOURCE;
    message->bytes.resize(static_cast<std::size_t>(bytes));
    check(MPI_Imrecv(message->bytes.data(), bytes, MPI_BYTE, &handle, &message->request),
          "MPI_Imrecv");
    receiving_.push_back(std::move(message));
  }
}

// Takes messages in the order of their start: an incomplete one holds back those behind it, so that
// handlers see the messages of a rank in the order sent. delivers: the messages are received ones.
bool Channel::finish(std::deque<std::unique_ptr<Message>>& messages, bool delivers) {
  bool any = false;
  while (!messages.empty()) {
    int complete = 0;
    check(MPI_Test(&messages.front()->request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (!complete) return any;
    any = true;
    auto message = std::move(messages.front());
    messages.pop_front();
    if (!delivers) continue;
    // The time is that of finding the message, not of sending it: the clocks of the ranks are not
    // compared.
    heard_[at(message->peer)] = Clock::now();
    std::memcpy(&message->kind, message->bytes.data(), sizeof(int));
    message->bytes.erase(message->bytes.begin(), message->bytes.begin() + sizeof(int));
    deliver(std::move(message));
  }
  return any;
}

void Channel::deliver(std::unique_ptr<Message> message) {
  if (message->kind == kBeat) return;
  Handler* handler = nullptr;
  {
    const std::lock_guard guard(mutex_);
    const auto found = handlers_.find(message->kind);
    // A handler is never removed, and only replaced before the run.
    if (found != handlers_.end()) handler = &found->second;
  }
  // A handler may be registered while messages of its kind wait: new ones queue up behind them.
  auto& late = without_handler_[message->kind];
  if (!handler || !late.empty()) {
    late.push_back(std::move(message));
    return;
  }
  try {
    (*handler)(message->peer, message->bytes);
  } catch (...) {
    on_error_(std::current_exception());
  }
}

bool Channel::deliver_late() {
  // The flag is cleared before the handlers are read: a handler that is registered meanwhile sets
  // it again.
  if (!handlers_changed_.exchange(false)) return false;
  for (auto& [kind, late] : without_handler_) {
    {
      const std::lock_guard guard(mutex_);
      if (!handlers_.contains(kind)) continue;
    }
    // deliver() looks at this queue, and must find it empty.
    auto messages = std::move(late);
    late.clear();
    for (auto& message : messages) deliver(std::move(message));
  }
  return true;
}

void Channel::beat() {
  const auto now = Clock::now();
  // This thread has not listened for long (the process was stopped): the others may have sent
  // heartbeats that it has not read, so it must not complain of their silence.
  const Seconds interval = beat_interval_;
  if (now - beat_at_ > kBeatsInTimeout * interval) std::ranges::fill(heard_, now);
  // The interval may have become shorter.
  if (now < beat_at_ && beat_at_ - now <= interval) return;
  beat_at_ = now + std::chrono::duration_cast<Clock::duration>(interval);
  for (int peer = rank_ == 0 ? 1 : 0; peer < (rank_ == 0 ? size_ : 1); ++peer)
    send(peer, kBeat, {});
}

}  // namespace hetsgd::mpi
