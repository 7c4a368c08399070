// How a segment ends for the client of a rank: what all ranks report, agree on and hand over.
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "training/rank_client.hpp"

namespace hetsgd {

using namespace rank_messages;  // NOLINT: the words of this file

// Evaluations that synchronous workers come to before they stop are made.
void RankClient::end_for_joiners() {
  if (!synchronous()) {
    referee_.end_segment();
    return announce();
  }
  std::unique_lock lock(mutex_);
  const bool tell = !std::exchange(stop_told_, true);
  lock.unlock();
  if (tell) halt();
}

// Synchronous ones come no further than to their next call, on all ranks alike.
void RankClient::losing() {
  const std::lock_guard lock(mutex_);
  losing_ = true;
}

void RankClient::end(Worker& worker) {
  report(worker, Report::last);
  Client::end(worker);
}

void RankClient::leave(Worker& worker) noexcept {
  if (setup_.may_lose && !last_reported_) report(worker, Report::last);
  Client::leave(worker);
}

bool RankClient::await_end(const std::map<int, Seconds>& lost) {
  if (setup_.may_lose) return settle(lost);
  std::unique_lock lock(mutex_);
  if (rank_ != 0) {
    await(lock, "rank 0 to end the segment", peer_timeout_,
          [&] { return is_followed_.has_value(); });
    return *is_followed_;
  }
  await(lock, "the last reports of all ranks", peer_timeout_, [&] { return ended_ == size_; });
  lock.unlock();
  referee_.sort_events();
  const bool follows = referee_.is_followed();
  for (int to = 1; to < control_.size(); ++to) send(to, kEnd, follows);
  return follows;
}

bool RankClient::settle(const std::map<int, Seconds>& lost) {
  if (std::ranges::find(view_, rank_) != view_.end()) {
    Settled mine{.worker = rank_, .has_state = state().has_kept(rank_)};
    // Without an entry the worker was unwound before it began.
    if (const auto found = unsettled_.find(rank_); found != unsettled_.end()) {
      mine.samples = found->second;
    }
    send(0, kSettled, mine);
  }
  std::unique_lock lock(mutex_);
  if (rank_ == 0) {
    await(lock, "the last reports of all ranks", peer_timeout_,
          [&] { return settled_.size() == view_.size(); });
    const Outcome outcome = decide(lost);
    lock.unlock();
    for (int to = 0; to < control_.size(); ++to) send(to, kOutcome, outcome);
    lock.lock();
  }
  await(lock, "rank 0 to end the segment", peer_timeout_, [&] { return outcome_.has_value(); });
  with_state_.clear();
  for (const Settled& each : outcome_->workers) {
    unsettled_[each.worker] = each.samples;
    if (each.has_state != 0 && !lost.contains(each.worker)) with_state_.push_back(each.worker);
  }
  std::ranges::sort(with_state_);
  known_ = fields_in(outcome_->known);
  Archive fields = Archive::loading(known_, known_, "what rank 0 knows");
  fields("budget", budget_);
  fields("accuracies", accuracies_);
  return outcome_->follows != 0;
}

// On rank 0, with the mutex held.
Outcome RankClient::decide(const std::map<int, Seconds>& lost) {
  referee_.sort_events();
  if (stop_point_ && stop_point_->end == kSegmentEnds) referee_.end_segment();
  Outcome outcome{.follows = lost.empty() ? referee_.is_followed() : referee_.goes_on_after_loss(),
                  .workers = settled_};
  SavedFields known;
  Archive fields = Archive::saving(known, known);
  referee_.known(fields);
  outcome.known = list_of(known);
  return outcome;
}

void RankClient::share_state(SavedRun& saved, const std::vector<int>& to) {
  const int from = saved.with_state.front();
  if (rank_ == from) {
    const WorkerFields fields{list_of(saved.common), list_of(saved.workers[from])};
    for (const int worker : to) {
      if (worker != from) send(worker, kFields, fields);
    }
    return;
  }
  if (std::ranges::find(to, rank_) == to.end()) return;
  std::unique_lock lock(mutex_);
  await(lock, "the state of another worker", peer_timeout_, [&] { return got_.has_value(); });
  saved.common = fields_in(got_->common);
  saved.workers[from] = fields_in(got_->own);
  got_.reset();
}

void RankClient::gather(Trace& trace) {
  if (rank_ >= rules_.plan.workers) return;  // this rank runs services and no worker
  rank_ == 0 ? take_traces(trace) : send_trace(trace);
}

// One part at a time, so that neither side holds the whole trace in memory.
void RankClient::send_trace(const Trace& trace) {
  const auto send_part = [this](const TracePart& part) {
    std::unique_lock lock(mutex_);
    await(lock, "rank 0 to ask for the trace", peer_timeout_, [&] { return traces_asked_ > 0; });
    --traces_asked_;
    lock.unlock();
    send(0, kTrace, part);
  };
  for (const RecordedLine* line : trace.recorded()) {
    send_part({.begins = *line, .labels = line->calls.labels()});
    for (std::size_t i = 0; i < line->calls.chunks(); ++i) {
      send_part({.chunk = line->calls.chunk(i)});
    }
  }
  send_part({.is_last = true});
}

void RankClient::take_traces(Trace& trace) {
  const int workers = rules_.plan.workers;
  std::vector<RecordedLine*> lines(at(workers), nullptr);  // by rank, the one that is being taken
  for (int from = 1; from < workers; ++from) send(from, kAskTrace);
  for (int left = workers - 1; left > 0;) {
    std::unique_lock lock(mutex_);
    await(lock, "the traces of all ranks", peer_timeout_, [&] { return !traces_.empty(); });
    auto [from, part] = std::move(traces_.front());
    traces_.pop_front();
    lock.unlock();
    if (part.is_last) {
      --left;
      continue;
    }
    RecordedLine*& line = lines[at(from)];
    if (part.begins) {
      line = &trace.add(std::move(*part.begins));
      for (const CallLabel& label : part.labels) line->calls.label(label);
    }
    const std::string what = fmt::format("{} of rank {}", kTrace.name, from);
    if (line == nullptr) throw data_error("{}: found calls, expected a line before them", what);
    line->calls.append(part.chunk, what);
    send(from, kAskTrace);
  }
}

}  // namespace hetsgd
