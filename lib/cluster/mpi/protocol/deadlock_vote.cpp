#include "cluster/mpi/protocol/deadlock_vote.hpp"

#include "cluster/mpi/protocol/messages.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::mpi {

namespace {

// A look takes the world's mutex and asks every wait for its text.
constexpr std::chrono::milliseconds kLookInterval{500};

}  // namespace

DeadlockVote::DeadlockVote(Control& control, FirstError& errors)
    : control_(control), errors_(errors) {
  control_.on_message(kBlocked, [this](int from, auto bytes) { on_blocked(from, bytes); });
}

void DeadlockVote::reset() { votes_.assign(at(control_.size()), {}); }

void DeadlockVote::look(const Blocked& blocked, Seconds timeout) {
  const auto now = std::chrono::steady_clock::now();
  // The steady clock and not the training clock: a look is due by host time.
  if (now - looked_at_ < kLookInterval) return;
  looked_at_ = now;
  timeout_ = timeout;
  std::vector<BlockedProcess> waiting;
  // `since` is on the training clock, which stands during pauses.
  const auto since = blocked(waiting);
  // A message in flight looks like a deadlock to both sides, but not for as long as the timeout.
  const bool votes = since && *since >= timeout;
  // Nothing to say: there is no vote, and none to take back. A vote is repeated at every look, with
  // newer times, and costs one message.
  if (!votes && !voted_) return;
  voted_ = votes;
  std::string text;  // empty: it takes its vote back
  if (votes) text = fmt::format("\n  rank {}:", control_.rank());
  for (const BlockedProcess& process : waiting) {
    if (!votes) break;
    text += fmt::format(" {} {} (since {:.3f} s);", process.name, process.blocking_point,
                        process.since.count());
  }
  control_.send(0, kBlocked, std::as_bytes(std::span(text)));
}

// On rank 0. Votes are kept by rank until they are taken back. If all are there at once, that is a
// deadlock: each says that its rank has not gone on for the whole timeout, in which every message
// has arrived.
void DeadlockVote::on_blocked(int from, std::span<const std::byte> bytes) {
  votes_.resize(at(control_.size()));
  votes_[at(from)] = text_of(bytes);
  std::string text = "deadlock: no rank can go on";
  for (const std::string& vote : votes_) {
    if (vote.empty()) return;
    text += vote;
  }
  errors_.fail_all({.code = static_cast<int>(ExitCode::runtime),
                    .text = std::move(text),
                    .hint = fmt::format("all have waited for {:.0f} s; if a single message takes "
                                        "so long, raise --peer-timeout",
                                        timeout_.count())});
}

}  // namespace hetsgd::mpi
