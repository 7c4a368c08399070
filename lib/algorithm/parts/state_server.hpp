// The state server of ESync (section 4, algorithm 2): decides at each query whether a worker has
// time for another local iteration before the slowest worker is ready.
//
// Every record is (rank, k, c, t_e, ready, round). A worker that has not asked yet counts as the
// slowest (c infinite), so no worker is ready before all have begun. RESET-STATE-SERVER needs no
// message of its own: the first query of a round (k = 0) does it. A worker in a round:
//
//            k = 0: NOT-READY           query after each iteration
//   begins ------------------> trains ------------------------------> READY: aggregates, next round
//                                ^            | NOT-READY
//                                '------------' time for another before the slowest ends
//
// The slowest worker has the largest c. It is READY at its first query with k > 0. So it makes one
// iteration per round, unless it trains on while the answer travels, and all others make as many as
// end before that. "Remaining time" is c_slow - (now - t_e,slow) on the training clock of the
// server. If ranks have clocks of their own, the error is that of the clocks' offset.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
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

// Why a worker is told NOT-READY (before `is_slowest`) or READY. The histogram
// "state_server_decision" shows these values, so they are part of the result's format. Lines 5 and
// 9 of algorithm 2; the rules are tried in the order 0, 1, 4, 5, 6, and 2 applies if none of them
// does.
enum class StateRule : std::int32_t {
  first_iteration,      // 0: k = 0: each worker makes at least one
  slowest_not_begun,    // 1: the slowest worker is still in the round before
  time_for_another,     // 2: c_i + eps <= the rest of the slowest worker's iteration
  overtaken,            // 3: a newer query of the same worker came first (--ack delayed)
  is_slowest,           // 4
  slowest_is_ready,     // 5
  no_time_for_another,  // 6
};
inline bool is_ready(StateRule rule) { return rule >= StateRule::is_slowest; }

// `slowest` and `decided_s` let a script recompute the decision from the recorded queries.
struct StateAnswer {
  StateRule rule;
  std::int32_t slowest;  // rank
  double decided_s;      // when the query was decided
};

// Serial, as every Service; it answers every query at once and charges nothing for it.
class StateServer final : public Service<StateQuery, StateAnswer> {
 public:
  // slack: eps, seconds.
  StateServer(int workers, double slack)
      : records_(static_cast<std::size_t>(workers)),
        has_left_(static_cast<std::size_t>(workers)),
        slack_(slack) {
    for (int rank = 0; rank < workers; ++rank) by_pace_.insert(pace(rank));
  }

  void handle(int from, const StateQuery& query, std::span<const float>,
              Responder<StateAnswer> reply) override;
  Work work(const StateQuery&, std::size_t) const override { return {}; }
  void fields(Archive& fields) override;
  // Nobody trains on until a worker that has left is done.
  void left(int rank) override { has_left_[static_cast<std::size_t>(rank)] = true; }

 private:
  // Queries may overtake each other if their worker trains on meanwhile. So a record ignores a
  // query that is older than itself, by (round, k). A READY stands until the next round.
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

  // Algorithm 2, lines 4 to 9, for a record that is already up to date.
  StateRule decide(const Record& current) const;

  // by_pace_ has exactly one entry for each record: its key is taken out before c changes.
  std::vector<Record> records_;                        // by rank
  std::vector<bool> has_left_;                         // by rank
  std::set<std::pair<double, std::int32_t>> by_pace_;  // (-c, rank): a query costs log P, not P
  double slack_;
};

using StateClient = ServiceClient<StateQuery, StateAnswer>;

// The state server of the run. Every process that uses it opens it for itself.
StateClient open_state_server(Worker& self, Seconds slack);
// QUERY-STATE: asks, waits, records.
StateAnswer query_state(Worker& self, StateClient& server, const StateQuery& query);

// Queries in flight while their worker trains on (section 4.2, --ack delayed). Each is carried by a
// background task, a carrier. There are as many of these as queries have been in flight at the same
// time, and four at most. While all are under way, a newer query takes the place of one that has
// not left: the server would ignore the older one beside it.
//
//   main      post(k) -- trains on --> post(k + 1) -- trains on --> X  aborted: ready() cancelled
//   carrier        '-- query -- NOT-READY          '-- query -- READY -'
//
// A READY of an earlier round may still be in flight when a round begins. Its round tells it apart,
// so that it cannot abort the new one.
class DelayedQueries {
 public:
  // slack: as for the state server. round_trip: the last one, of an earlier segment of the run.
  DelayedQueries(Worker& self, Seconds slack, Seconds round_trip)
      : self_(self), shared_(std::make_shared<Shared>(self, slack)) {
    shared_->round_trip = round_trip;
  }

  // From now on READY answers to queries of this round raise ready(), which is lowered here. Both
  // happen with the monitor held, so that a late READY of the round before cannot come between.
  void begin_round(std::int64_t round);
  CancellationToken& ready() { return *shared_->ready; }

  // Returns at once. Adds the last round trip to the query's c: the worker learns of an answer
  // later by this time, so an iteration costs it that much more. Starts another carrier if all are
  // busy and there may be one more.
  void post(StateQuery query);

  // Called at the end of the worker: the carriers leave when their last query is answered. They
  // hold the shared state, so this object need not outlive them. Returns the last round trip.
  Seconds close();

 private:
  struct Shared {  // guarded by the monitor
    Shared(Worker& self, Seconds slack_)
        : monitor(self.make_monitor()), ready(self.make_cancellation_token()), slack(slack_) {}

    std::unique_ptr<Monitor> monitor;
    std::unique_ptr<CancellationToken> ready;
    const Seconds slack;
    std::optional<StateQuery> posted;  // the newest that has not left
    int free = 0;                      // carriers that wait for a query, or are about to
    bool closed = false;
    std::int64_t round = 0;
    Seconds round_trip{0};
  };

  static void carry(Worker& carrier, Shared& shared);

  Worker& self_;
  std::shared_ptr<Shared> shared_;
  int carriers_ = 0;
};

}  // namespace hetsgd
