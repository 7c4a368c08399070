#include "cluster/mpi/protocol/agreement.hpp"

#include <algorithm>
#include <utility>

#include "cluster/mpi/protocol/messages.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::mpi {

Agreement::Agreement(Control& control, FirstError& errors) : control_(control), errors_(errors) {
  on_values<Result>(control_, kAgree,
                    [this](int from, Result said) { on_agree(from, std::move(said)); });
  // On every rank: the decision, which may come before this rank waits for it.
  on_values<Result>(control_, kAgreed, [this](int, Result agreed) {
    const auto guard = errors_.lock();
    agreed_.push_back(std::move(agreed));
    errors_.notify();
  });
}

Agreement::Result Agreement::agree(std::span<const std::byte> answer,
                                   const std::optional<Failure>& failure) {
  // From here on the silence of another rank counts (Coordinator::tick): a rank that reads data for
  // a minute is not waited for by anybody.
  waits_ = true;
  Result mine;
  if (failure) {
    mine.failed = control_.rank();
    mine.failure = *failure;
  } else {
    mine.answer.assign(answer.begin(), answer.end());
  }
  send_values(control_, 0, kAgree, mine);
  auto lock = errors_.lock();
  // The wait can end by a failure that rank 0 has not seen: this rank has lost rank 0, and nobody
  // answers.
  errors_.wait_between_runs(lock, [&] { return !agreed_.empty(); });
  waits_ = false;
  // The answer of rank 0 counts, where it came; it is the same on all ranks, an error may not be.
  if (agreed_.empty()) return {.failed = 0, .failure = *errors_.between_runs()};
  Result result = std::move(agreed_.front());
  agreed_.pop_front();
  result.answers = std::exchange(answers_, {});
  return result;
}

// On rank 0, by the thread of `control`. Decides when the queue of every rank has an entry, and
// takes one of each: the k-th entries of all ranks are those of the k-th agreement, as messages of
// one pair keep their order. Ranks are visited in order, so the lowest failed rank gives the error.
void Agreement::on_agree(int from, Result answer) {
  if (errors_.lost()) {  // a lost rank never comes
    const auto guard = errors_.lock();
    return send_values(control_, from, kAgreed,
                       Result{.failed = 0, .failure = *errors_.between_runs()});
  }
  said_.resize(at(control_.size()));
  said_[at(from)].push_back(std::move(answer));
  // Not all have come. The cost is p per message, and p^2 per agreement; there are few agreements.
  if (std::ranges::any_of(said_, [](const auto& said) { return said.empty(); })) return;
  Result result;
  std::vector<std::vector<std::byte>> answers;
  for (auto& said : said_) {
    Result one = std::move(said.front());
    said.pop_front();
    if (result.failed < 0 && one.failed >= 0) result = one;
    answers.push_back(std::move(one.answer));
  }
  // A rank that failed has brought no answer, so the answers of the others have no use.
  if (result.failed >= 0) answers.clear();
  if (!answers.empty()) result.answer = answers[0];
  send_values_to_all(control_, kAgreed, result);
  // Rank 0's own kAgreed is handled by this thread, later: answers_ is there when it goes on.
  const auto guard = errors_.lock();
  answers_ = std::move(answers);
}

}  // namespace hetsgd::mpi
