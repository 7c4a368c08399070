// RankCalls: calls between the processes of a run, beside the training. They are control messages,
// so they are on no clock and count in no time breakdown. A rank_client reaches the referee through
// them.
//
//   tell(to, message, content)              a handler of rank `to` is called
//   ask(ranks, message, question_for, then) so is one of each rank; it answers now or later, and
//                                           `then` gets all answers
//
//   a question on the rank that asks:   asked ── answers come ──> all are here ──> then(answers)
//
// All messages of one object travel under one kind of the Control: a header says which message of
// the list in rank_messages.hpp it is, and which question it asks or answers; the content follows.
//
// The object also has the mutex of its owner, and the condition variable on which the owner's
// threads wait for what the messages change. Locks, in this order: the guard of the handlers, that
// mutex. No message is sent with the mutex held.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/process_group.hpp"
#include "core/byte_stream.hpp"
#include "core/error.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd {

// Content or answer of a message that has none.
struct Nothing {
  static constexpr auto members() { return std::tuple<>(); }
};

// A message: its number among those of one RankCalls, its name in errors, and the types of its
// content and of the answer. Spans are received as vectors.
template <class Sent_, class Answer_ = Nothing, class Received_ = typename ByteForm<Sent_>::Stored>
struct RankMessage {
  using Sent = Sent_;
  using Received = Received_;
  using Answer = Answer_;
  using Answered = typename ByteForm<Answer_>::Stored;
  std::int32_t number;
  const char* name;
};

class RankCalls : NonCopyable {
 public:
  using Lock = std::unique_lock<std::mutex>;
  // The rank that asks, and its question.
  struct Caller {
    int rank = 0;
    std::uint32_t question = 0;
  };

  // All ranks make theirs in the same order: the n-th object of each rank talks to the n-th of the
  // others. patience: how long a wait for other ranks may take. The control outlives the object.
  RankCalls(Control& control, Seconds patience);
  ~RankCalls() { close(); }
  // After this no handler is called any more, and messages that still come are dropped.
  void close();

  // The thread of the control calls handle(caller, content), one call at a time. It must not block:
  // that thread also sends the heartbeats. Malformed bytes are an Error(data) that names message
  // and rank. Only before listen().
  template <class Message, class Handle>
  void on(const Message& message, Handle handle);
  // From here on messages are taken in; those that have come early wait for it.
  void listen();

  // Any thread; does not wait. `to` may be the own rank.
  template <class Message>
  void tell(int to, const Message& message, const typename Message::Sent& content = {}) const {
    control_.send(to, kind_, to_bytes(Header{message.number, 0}, content));
  }
  // Once per question, by any thread.
  template <class Message>
  void answer(const Caller& to, const Message& message,
              const typename Message::Answer& content) const {
    control_.send(to.rank, kind_, to_bytes(Header{kAnswer | message.number, to.question}, content));
  }
  // Asks every rank question_for(rank). then(answers, in the order of the ranks) is called by the
  // thread of the control. Any thread; does not wait.
  template <class Message, class QuestionFor, class Then>
  void ask(std::span<const int> ranks, const Message& message, QuestionFor question_for, Then then);
  // Does the same, waits for the answers and returns them. Throws what await() throws.
  template <class Message, class QuestionFor>
  auto ask_and_wait(std::span<const int> ranks, const Message& message, QuestionFor question_for,
                    std::optional<Seconds> limit = {});

  // --- the state of the owner, guarded by one mutex
  Lock lock() const { return Lock(mutex_); }
  // Applies the change under the mutex, and wakes the threads that wait for it.
  template <class Change>
  void change(Change apply) {
    const Lock held = lock();
    apply();
    notify();
  }
  void notify() { changed_.notify_all(); }
  // Waits until ready(). The mutex is held, and released while it waits. Throws Error(runtime),
  // naming `what`, if the run fails or the patience is over; `limit`: in its place.
  void await(Lock& held, const char* what, const std::function<bool()>& ready,
             std::optional<Seconds> limit = {});

 private:
  struct Header {
    std::int32_t message = 0;    // its number, and kAnswer if this is the answer
    std::uint32_t question = 0;  // of the rank that asks
  };
  static constexpr std::int32_t kAnswer = 1 << 16;
  using Handler = std::function<void(Caller, std::span<const std::byte>)>;
  // Takes an answer from a rank. Returns whether it is the last one to the question.
  using Taker = std::function<bool(int from, std::span<const std::byte>)>;
  // The handler that the control keeps for good, and that ends with this object.
  struct Guard;

  void receive(int from, std::span<const std::byte> bytes);
  std::uint32_t new_question(Taker taker);

  Control& control_;
  const Seconds patience_;
  const int kind_;
  const std::shared_ptr<Guard> guard_;
  std::map<std::int32_t, Handler> handlers_;  // constant once messages come
  mutable std::mutex mutex_;                  // guards all below, and the state of the owner
  std::condition_variable changed_;
  std::uint32_t questions_ = 0;
  std::map<std::uint32_t, Taker> asked_;
};

template <class Message, class Handle>
void RankCalls::on(const Message& message, Handle handle) {
  handlers_[message.number] = [handle, name = message.name](Caller caller,
                                                            std::span<const std::byte> content) {
    handle(caller, from_bytes<typename Message::Received>(
                       content, fmt::format("{} of rank {}", name, caller.rank)));
  };
}

template <class Message, class QuestionFor, class Then>
void RankCalls::ask(std::span<const int> ranks, const Message& message, QuestionFor question_for,
                    Then then) {
  struct Gathering {
    std::vector<int> ranks;
    std::vector<typename Message::Answered> answers;
    std::size_t here = 0;
  };
  // The thread of the control alone touches it from now on.
  const auto all = std::make_shared<Gathering>();
  all->ranks.assign(ranks.begin(), ranks.end());
  all->answers.resize(ranks.size());
  const std::uint32_t question =
      new_question([all, then, name = message.name](int from, std::span<const std::byte> content) {
        const auto place = std::ranges::find(all->ranks, from) - all->ranks.begin();
        all->answers.at(static_cast<std::size_t>(place)) =
            from_bytes<typename Message::Answer>(content, fmt::format("{} of rank {}", name, from));
        const bool is_over = ++all->here == all->ranks.size();
        if (is_over) then(std::move(all->answers));
        return is_over;
      });
  for (const int rank : ranks) {
    control_.send(
        rank, kind_,
        to_bytes(Header{message.number, question}, typename Message::Sent(question_for(rank))));
  }
}

template <class Message, class QuestionFor>
auto RankCalls::ask_and_wait(std::span<const int> ranks, const Message& message,
                             QuestionFor question_for, std::optional<Seconds> limit) {
  // Shared with the answers, which may come when this thread has given up.
  const auto got = std::make_shared<std::optional<std::vector<typename Message::Answered>>>();
  ask(ranks, message, question_for, [this, got](std::vector<typename Message::Answered> answers) {
    change([&] { *got = std::move(answers); });
  });
  Lock held = lock();
  await(
      held, message.name, [&] { return got->has_value(); }, limit);
  return std::move(**got);
}

}  // namespace hetsgd
