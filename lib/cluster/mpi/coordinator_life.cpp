// Who is alive, who waits in vain, and what all agree on outside of runs.
#include <cstring>

#include "cluster/mpi/coordinator_messages.hpp"

namespace hetsgd::mpi {

namespace {

constexpr std::chrono::milliseconds kBlockedInterval{500};

// What a rank says at an agreement, and what rank 0 answers: the rank that has failed (-1: none),
// the answer; then a packed failure, or what the rank says.
struct Said {
  int failed = -1;
  int unused = 0;
  double answer = 0;
};

std::vector<std::byte> pack(const Coordinator::Agreement& agreement,
                            std::span<const std::byte> saying = {}) {
  const Said said{.failed = agreement.failed, .answer = agreement.answer};
  std::vector<std::byte> bytes;
  detail::put(bytes, &said, sizeof said);
  if (said.failed < 0) {
    detail::put(bytes, saying.data(), saying.size());
    return bytes;
  }
  const auto failure = pack(0, agreement.failure);
  detail::put(bytes, failure.data(), failure.size());
  return bytes;
}

Coordinator::Agreement unpack_agreement(std::span<const std::byte> bytes) {
  const auto said = read<Said>(bytes);
  Coordinator::Agreement agreement{.answer = said.answer, .failed = said.failed};
  if (said.failed >= 0) agreement.failure = unpack(bytes.subspan(sizeof said)).second;
  return agreement;
}

}  // namespace

// --- signs of life

void Coordinator::look_for_signs_of_life() {
  const bool root = channel_.rank() == 0;
  for (int peer = root ? 1 : 0; peer < (root ? channel_.size() : 1); ++peer) {
    const Seconds silence = channel_.silence(peer);
    if (silence < peer_timeout_ || lost_peer_) continue;
    Failure failure{
        .code = static_cast<int>(ExitCode::runtime),
        .text = fmt::format("rank {} ({}) has given no sign of life for {:.0f} s", peer,
                            ranks_[static_cast<std::size_t>(peer)].host, silence.count()),
        .hint =
            "look for its end in its host's log; --peer-timeout sets the "
            "time that is waited"};
    int epoch = 0;
    {
      const std::lock_guard guard(mutex_);
      epoch = epoch_;
      lost_ = failure;
      lost_peer_ = true;
      changed_.notify_all();
    }
    // Rank 0 tells all; who has lost rank 0 can tell nobody.
    root ? decide(epoch, failure) : on_failure(epoch, failure);
  }
}

// --- deadlocks

// Local mutex held.
void Coordinator::say_if_blocked() {
  const auto now = std::chrono::steady_clock::now();
  if (now - blocked_said_at_ < kBlockedInterval) return;
  blocked_said_at_ = now;
  std::vector<BlockedProcess> waiting;
  const auto blocked = local_->blocked(waiting);
  const bool long_enough = blocked && *blocked >= peer_timeout_;
  if (!long_enough && !blocked_said_) return;
  blocked_said_ = long_enough;
  std::string text;
  if (long_enough) text = fmt::format("\n  rank {}:", channel_.rank());
  for (const BlockedProcess& process : waiting) {
    if (!long_enough) break;
    text += fmt::format(" {} {} (since {:.3f} s);", process.name, process.blocking_point,
                        process.since.count());
  }
  channel_.send(0, kBlocked, std::as_bytes(std::span(text)));
}

void Coordinator::on_blocked(int from, std::span<const std::byte> bytes) {
  blocked_.resize(static_cast<std::size_t>(channel_.size()));
  blocked_[static_cast<std::size_t>(from)].assign(reinterpret_cast<const char*>(bytes.data()),
                                                  bytes.size());
  std::string text = "deadlock: no rank can go on";
  for (const std::string& one : blocked_) {
    if (one.empty()) return;
    text += one;
  }
  int epoch = 0;
  Seconds timeout{0};
  {
    const std::lock_guard guard(mutex_);
    epoch = epoch_;
    timeout = peer_timeout_;
  }
  decide(epoch, {.code = static_cast<int>(ExitCode::runtime),
                 .text = std::move(text),
                 .hint = fmt::format("all have waited for {:.0f} s; over a network on which one "
                                     "message takes so long, raise --peer-timeout",
                                     timeout.count())});
}

// --- agreements

Coordinator::Agreement Coordinator::agree(double answer, const std::optional<Failure>& failure,
                                          Seconds peer_timeout, std::span<const std::byte> saying) {
  {
    const std::lock_guard guard(mutex_);
    peer_timeout_ = peer_timeout;
  }
  agreeing_ = true;
  const Agreement mine{.answer = answer,
                       .failed = failure ? channel_.rank() : -1,
                       .failure = failure.value_or(Failure{})};
  channel_.send(0, kAgree, pack(mine, saying));
  std::unique_lock lock(mutex_);
  const auto failed = [&] {  // a signal that comes between runs is none's
    const auto found = failures_.find(epoch_);
    return found != failures_.end() && found->second.interrupted < 0;
  };
  changed_.wait(lock, [&] { return !agreed_.empty() || lost_peer_ || failed(); });
  agreeing_ = false;
  if (agreed_.empty()) return {.failed = 0, .failure = lost_ ? *lost_ : failures_.at(epoch_)};
  const auto bytes = std::move(agreed_.front());
  agreed_.pop_front();
  Agreement result = unpack_agreement(bytes);
  result.said = std::exchange(said_, {});
  return result;
}

// On rank 0.
void Coordinator::on_agree(int from, std::span<const std::byte> bytes) {
  if (lost_peer_) {  // who is lost never comes
    const std::lock_guard guard(mutex_);
    return channel_.send(from, kAgreed, pack({.failed = 0, .failure = *lost_}));
  }
  at_agreement_.resize(static_cast<std::size_t>(channel_.size()));
  at_agreement_[static_cast<std::size_t>(from)].emplace_back(bytes.begin(), bytes.end());
  Agreement result;
  for (auto rank = at_agreement_.rbegin(); rank != at_agreement_.rend(); ++rank) {
    if (rank->empty()) return;
    const bool root = std::next(rank) == at_agreement_.rend();
    const Agreement one = unpack_agreement(rank->front());
    if (one.failed >= 0) result = one;
    if (root) result.answer = one.answer;
  }
  std::vector<std::vector<std::byte>> said;
  for (auto& each : at_agreement_) {
    const auto saying = std::span(each.front()).subspan(sizeof(Said));
    if (result.failed < 0) said.emplace_back(saying.begin(), saying.end());
    each.pop_front();
  }
  {
    const std::lock_guard guard(mutex_);
    said_ = std::move(said);
  }
  channel_.send_to_all(kAgreed, pack(result));
}

bool Coordinator::leave(std::optional<Seconds> limit) {
  if (lost_peer_) return false;
  leaving_ = true;
  come(Meeting::leave, {});
  std::unique_lock lock(mutex_);
  return await(lock, Meeting::leave, limit);
}

}  // namespace hetsgd::mpi
