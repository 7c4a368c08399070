#include "training/rank_calls.hpp"

#include <atomic>

namespace hetsgd {

namespace {

// The number of objects made so far. It gives each run its own kind of control messages. So a late
// message of an earlier run, or an early one of the next, cannot be taken for another.
std::atomic<int> objects_made{0};

// The longest time until a thread that waits for a message notices that the run has failed.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

struct RankCalls::Guard {
  std::mutex mutex;
  RankCalls* calls;  // null: they have ended
};

RankCalls::RankCalls(Control& control, Seconds patience)
    : control_(control),
      patience_(patience),
      kind_(objects_made++),
      guard_(std::make_shared<Guard>()) {
  guard_->calls = this;
}

void RankCalls::listen() {
  control_.on_message(kind_, [guard = guard_](int from, std::span<const std::byte> bytes) {
    const std::lock_guard lock(guard->mutex);
    if (guard->calls) guard->calls->receive(from, bytes);
  });
}

void RankCalls::close() {
  const std::lock_guard lock(guard_->mutex);  // waits for the handler that is inside
  guard_->calls = nullptr;
}

void RankCalls::receive(int from, std::span<const std::byte> bytes) {
  ByteReader in(bytes, "a message between ranks");
  const auto header = in.get<Header>();
  if ((header.message & kAnswer) == 0) {
    return handlers_.at(header.message)({from, header.question}, in.rest());
  }
  Lock held = lock();
  const auto asked = asked_.find(header.question);
  HETSGD_CHECK(asked != asked_.end());
  const Taker taker = asked->second;
  held.unlock();
  if (!taker(from, in.rest())) return;
  held.lock();
  asked_.erase(header.question);
}

std::uint32_t RankCalls::new_question(Taker taker) {
  const Lock held = lock();
  asked_.emplace(++questions_, std::move(taker));
  return questions_;
}

void RankCalls::await(Lock& held, const char* what, const std::function<bool()>& ready,
                      std::optional<Seconds> limit) {
  const auto begin = std::chrono::steady_clock::now();
  const Seconds most = limit.value_or(patience_);
  while (!changed_.wait_for(held, kLook, ready)) {
    if (control_.failing()) {
      throw runtime_failure("rank {}: the run failed while it waited for {}", control_.rank(),
                            what);
    }
    if (std::chrono::steady_clock::now() - begin > most) {
      throw with_hint(
          runtime_failure("rank {}: waited {:.3g} s for {}", control_.rank(), most.count(), what),
          "if a message can take so long, raise --peer-timeout");
    }
  }
}

}  // namespace hetsgd
