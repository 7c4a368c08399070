#include "algorithm/parts/state_server.hpp"

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace hetsgd {

namespace {

// The carriers of a worker. So many queries per round trip are enough: an answer tells of a query
// that is late by a fourth of the round trip at most.
constexpr int kMostCarriers = 4;

}  // namespace

void StateServer::handle(int from, const StateQuery& query, std::span<const float>,
                         Responder<StateAnswer> reply) {
  Record& current = records_[static_cast<std::size_t>(from)];
  StateRule rule = StateRule::overtaken;
  if (query.round == current.round && is_ready(current.rule)) {
    rule = current.rule;  // --ack delayed: the first READY is still in flight
  } else if (std::pair(query.round, query.local_iterations) >=
             std::pair(current.round, current.local_iterations)) {
    by_pace_.erase(pace(from));
    current = {query.round, query.local_iterations, query.capability_s, query.last_finish_s,
               StateRule::first_iteration};  // line 3
    by_pace_.insert(pace(from));
    rule = current.rule = decide(current);
  }
  reply({rule, slowest(), now().count()}, {}, Traffic::control);
}

StateRule StateServer::decide(const Record& current) const {
  const Record& slow = records_[static_cast<std::size_t>(slowest())];    // line 4
  if (current.local_iterations == 0) return StateRule::first_iteration;  // line 5
  if (has_left_[static_cast<std::size_t>(slowest())]) return StateRule::slowest_is_ready;
  if (slow.round < current.round) return StateRule::slowest_not_begun;              // line 5
  const double rest = slow.capability_s - now().count() + slow.last_finish_s;       // line 8
  if (&slow == &current) return StateRule::is_slowest;                              // line 9
  if (is_ready(slow.rule)) return StateRule::slowest_is_ready;                      // line 9
  if (current.capability_s + slack_ > rest) return StateRule::no_time_for_another;  // line 9
  return StateRule::time_for_another;
}

StateClient open_state_server(Worker& self, Seconds slack) {
  return self.serve<StateServer>("state", self.size(), slack.count());
}

StateAnswer query_state(Worker& self, StateClient& server, const StateQuery& query) {
  const StateAnswer answer = server.call(query, {}, {}, Traffic::control);
  self.observe("state_server_decision", static_cast<std::int64_t>(answer.rule));
  if (self.plan().record_steps) {
    self.record({{"type", "query"},
                 {"rank", self.rank()},
                 {"round", query.round},
                 {"k", query.local_iterations},
                 {"c_s", query.capability_s},
                 {"finished_s", query.last_finish_s},
                 {"decided_s", answer.decided_s},
                 {"slowest", answer.slowest},
                 {"rule", static_cast<int>(answer.rule)},
                 {"ready", is_ready(answer.rule)}});
  }
  return answer;
}

void DelayedQueries::begin_round(std::int64_t round) {
  const std::lock_guard lock(*shared_->monitor);
  shared_->round = round;
  shared_->ready->reset();
}

void DelayedQueries::post(StateQuery query) {
  {
    const std::lock_guard lock(*shared_->monitor);
    query.capability_s += shared_->round_trip.count();
    shared_->posted = query;
    shared_->monitor->notify_all();
    if (shared_->free > 0 || carriers_ == kMostCarriers) return;
    ++shared_->free;
  }
  self_.background_task("query " + std::to_string(++carriers_),
                        [shared = shared_](Worker& carrier) { carry(carrier, *shared); });
}

Seconds DelayedQueries::close() {
  const std::lock_guard lock(*shared_->monitor);
  shared_->closed = true;
  shared_->monitor->notify_all();
  return shared_->round_trip;
}

void StateServer::fields(Archive& fields) {
  fields("records", records_);
  fields.to_ranks_now(records_, Record());
  if (!fields.is_loading()) return;
  by_pace_.clear();
  for (int rank = 0; rank < static_cast<int>(records_.size()); ++rank) by_pace_.insert(pace(rank));
}

void DelayedQueries::carry(Worker& carrier, Shared& shared) {
  std::unique_lock lock(*shared.monitor);
  StateClient server = open_state_server(carrier, shared.slack);
  for (;; ++shared.free) {
    shared.monitor->wait([&] { return shared.closed || shared.posted; }, "queries to carry");
    if (!shared.posted) return;  // closed
    const StateQuery query = *std::exchange(shared.posted, std::nullopt);
    --shared.free;
    lock.unlock();
    const Seconds sent = carrier.now();
    const StateAnswer answer = query_state(carrier, server, query);
    lock.lock();
    shared.round_trip = carrier.now() - sent;
    if (is_ready(answer.rule) && query.round == shared.round) shared.ready->cancel();
  }
}

}  // namespace hetsgd
