// The state server of ESync (paper 003 section 4, algorithm 2): decides at each query whether a
// worker has time for another local iteration before the slowest worker is ready.
//
// Every record is (rank, k, c, t_e, ready, round); a worker that has not asked yet counts as the
// slowest, so nobody is ready before all have begun. RESET-STATE-SERVER needs no message of its
// own: the first query of a round (k = 0) does it.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

// QUERY-STATE(r, k, c, t_e); r is the caller.
struct StateQuery {
  std::int64_t round;
  std::int64_t local_iterations;  // k, complete ones of this round
  double capability_s;            // c, time of an iteration
  double last_finish_s;           // t_e
};

// Why a worker is told NOT-READY (before `is_slowest`) or READY. Shown in this order by the
// histogram "state_server_decision".
enum class StateRule : std::int32_t {
  first_iteration,      // 0: k = 0: everybody makes at least one
  slowest_not_begun,    // 1: the slowest worker is still in the round before
  time_for_another,     // 2: c_i + eps <= the rest of the slowest worker's iteration
  overtaken,            // 3: a newer query of the same worker came first (--ack delayed)
  is_slowest,           // 4
  slowest_is_ready,     // 5
  no_time_for_another,  // 6
};
inline bool is_ready(StateRule rule) { return rule >= StateRule::is_slowest; }

struct StateAnswer {
  StateRule rule;
  std::int32_t slowest;  // rank
  double decided_s;      // when the query was decided
};

class StateServer final : public Service<StateQuery, StateAnswer> {
 public:
  // slack: eps, seconds.
  StateServer(int workers, double slack)
      : records_(static_cast<std::size_t>(workers)), slack_(slack) {
    for (int rank = 0; rank < workers; ++rank) by_pace_.insert(pace(rank));
  }

  void handle(int from, const StateQuery& query, std::span<const float>,
              Responder<StateAnswer> reply) override {
    Record& current = records_[static_cast<std::size_t>(from)];
    StateRule rule = StateRule::overtaken;
    if (query.round == current.round && is_ready(current.rule)) {
      rule = current.rule;  // --ack delayed: the first READY is still under way
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

  Work work(const StateQuery&, std::size_t) const override { return {}; }

 private:
  struct Record {
    std::int64_t round = -1;
    std::int64_t local_iterations = 0;
    double capability_s = std::numeric_limits<double>::infinity();
    double last_finish_s = 0;
    StateRule rule = StateRule::first_iteration;  // of the last query
  };

  // FIND-SLOWEST-DEVICE: the largest c; ties: lowest rank.
  std::int32_t slowest() const { return by_pace_.begin()->second; }
  std::pair<double, std::int32_t> pace(int rank) const {
    return {-records_[static_cast<std::size_t>(rank)].capability_s, rank};
  }

  StateRule decide(const Record& current) const {
    const Record& slow = records_[static_cast<std::size_t>(slowest())];               // line 4
    if (current.local_iterations == 0) return StateRule::first_iteration;             // line 5
    if (slow.round < current.round) return StateRule::slowest_not_begun;              // line 5
    const double rest = slow.capability_s - now().count() + slow.last_finish_s;       // line 8
    if (&slow == &current) return StateRule::is_slowest;                              // line 9
    if (is_ready(slow.rule)) return StateRule::slowest_is_ready;                      // line 9
    if (current.capability_s + slack_ > rest) return StateRule::no_time_for_another;  // line 9
    return StateRule::time_for_another;
  }

  std::vector<Record> records_;                        // by rank
  std::set<std::pair<double, std::int32_t>> by_pace_;  // (-c, rank): a query costs log P, not P
  double slack_;
};

using StateClient = ServiceClient<StateQuery, StateAnswer>;

// QUERY-STATE: asks, waits, records.
inline StateAnswer query_state(Worker& self, StateClient& server, const StateQuery& query) {
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

// Queries that travel while their worker trains on (section 4.2). Each is carried by a companion,
// of which there are as many as queries have been under way at the same time.
class DelayedQueries {
 public:
  DelayedQueries(Worker& self, const StateClient& server)
      : self_(self), shared_(std::make_shared<Shared>(self, server)) {}

  // READY answers to queries of this round raise ready() from now on.
  void begin_round(std::int64_t round) {
    const std::lock_guard lock(*shared_->monitor);
    shared_->round = round;
    shared_->ready->lower();
  }
  Interrupt& ready() { return *shared_->ready; }

  // Returns at once. Adds the last round trip to the query's c.
  void post(StateQuery query) {
    bool all_busy = false;
    {
      const std::lock_guard lock(*shared_->monitor);
      query.capability_s += shared_->round_trip.count();
      shared_->posted.push_back(query);
      all_busy = shared_->posted.size() > shared_->idle;
      shared_->monitor->notify_all();
    }
    if (!all_busy) return;
    self_.companion("query " + std::to_string(++carriers_),
                    [shared = shared_](Worker& carrier) { carry(carrier, *shared); });
  }

  // At the end of the worker: the carriers leave when their last query is answered.
  void close() {
    const std::lock_guard lock(*shared_->monitor);
    shared_->closed = true;
    shared_->monitor->notify_all();
  }

 private:
  struct Shared {  // guarded by the monitor
    Shared(Worker& self, const StateClient& server_)
        : monitor(self.make_monitor()), ready(self.make_interrupt()), server(server_) {}

    std::unique_ptr<Monitor> monitor;
    std::unique_ptr<Interrupt> ready;
    StateClient server;
    std::deque<StateQuery> posted;
    std::size_t idle = 0;  // carriers that wait for a query
    bool closed = false;
    std::int64_t round = 0;
    Seconds round_trip{0};
  };

  static void carry(Worker& carrier, Shared& shared) {
    std::unique_lock lock(*shared.monitor);
    for (;;) {
      ++shared.idle;
      shared.monitor->wait([&] { return shared.closed || !shared.posted.empty(); },
                           "queries to carry");
      --shared.idle;
      if (shared.posted.empty()) return;  // closed
      const StateQuery query = shared.posted.front();
      shared.posted.pop_front();
      lock.unlock();
      const Seconds sent = carrier.now();
      const StateAnswer answer = query_state(carrier, shared.server, query);
      lock.lock();
      shared.round_trip = carrier.now() - sent;
      if (is_ready(answer.rule) && query.round == shared.round) shared.ready->raise();
    }
  }

  Worker& self_;
  std::shared_ptr<Shared> shared_;
  int carriers_ = 0;
};

}  // namespace hetsgd
