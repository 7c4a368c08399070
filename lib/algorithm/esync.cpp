// esync: efficient synchronous parallel. In every round each worker trains a replica for as many
// local iterations as fit until the slowest worker has done one; a state server tells it when to
// stop. Then all average their model updates.
//
// Paper:      ESync (Li et al.), algorithm 1 (worker) and algorithm 2 (state server:
//             parts/state_server.hpp), section 4.2 (--ack delayed).
// Implements: w_{t,k+1} = w_{t,k} - lr g (5);  dw_i = w_{t,n_i} - w_t (6);  dw = mean_i dw_i (7);
//             w_{t+1} = w_t + epsilon dw (8).
// Symbols:    t round, k local iteration, n_i local iterations of worker i in a round, c seconds
//             per iteration, t_e end of the last one, T --rounds, epsilon --update-scale, eps
//             --time-slack, b --batch-size, lr --learning-rate.
// Cost:       one query (two control messages) per local iteration and one more per round; one
//             all_reduce of n elements per round, or (--aggregate server) n elements from each
//             worker to a server and n back, over the server's one link, and its time for P sums;
//             one step at the start, for the first c.
// Records:    histograms "local_steps" (n_i) and "state_server_decision" (StateRule); event "query"
//             under --record-steps: rank, round, k, c_s, finished_s (t_e), decided_s, slowest,
//             rule, ready.
// Deviations: exactly T rounds (algorithm 1 makes T + 1), or as many as the run's budget gives. The
//             first query of a round replaces RESET-STATE-SERVER. No worker is ready before all
//             have sent a query. --weight steps weighs dw_i by n_i / sum n instead of 1 / P. --ack
//             delayed: a NOT-READY is sent, too, though no worker waits for it; c includes the last
//             round trip; four queries of a worker travel at the same time at most, and of those
//             that have not left only the newest does; an update that has begun when READY arrives
//             is completed; the batch of an aborted iteration is taken again in the next round.
//             eps, "a small constant to avoid boundary error", has no value in the paper: 0 by
//             default, on all clusters. In sim that is exact, as times are. On a real clock a
//             worker whose next iteration would end about when the slowest's does may begin it in
//             half of the cases, and is then late by the jitter of its iterations; eps of that size
//             avoids this. The aggregation is an all_reduce by default, because the paper offers
//             both; its own system pushes the dw_i to a server that adds them and pulls the sum
//             (--aggregate server), for every method that it compares, so compare with ssgd
//             --storage central then.
//
// On equal workers each makes one iteration per round: with epsilon 1 and equal weights this
// is ssgd --per-worker-batch full, w - lr mean_i g_i, up to the rounding of (w_i - w) + w, for
// batches of equally many targets.

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/state_server.hpp"
#include "core/options.hpp"

namespace hetsgd {
namespace {

enum class Weight { equal, steps };
enum class Ack { immediate, delayed };
enum class Aggregate { all_reduce, server };

struct PushedUpdate {};
struct SummedUpdates {};

// GLOBAL-SUM-UPDATES at a server: waits for the weighted dw_i of all, adds them in rank order, so
// that the sum has the bits of an all_reduce, and answers all workers.
class UpdateServer final : public Service<PushedUpdate, SummedUpdates> {
 public:
  explicit UpdateServer(int workers) : update_(static_cast<std::size_t>(workers)) {}

  void handle(int from, const PushedUpdate&, std::span<const float> update,
              Responder<SummedUpdates> reply) override {
    update_[static_cast<std::size_t>(from)].assign(update.begin(), update.end());
    waiting_.push_back(std::move(reply));
    if (waiting_.size() < update_.size()) return;
    std::vector<float>& sum = update_.front();
    for (std::size_t r = 1; r < update_.size(); ++r) {
      std::ranges::transform(sum, update_[r], sum.begin(), std::plus<>());
    }
    for (auto& answer : waiting_) answer({}, sum, Traffic::parameters);
    waiting_.clear();
  }

 private:
  std::vector<std::vector<float>> update_;  // by rank
  std::vector<Responder<SummedUpdates>> waiting_;
};
using UpdateClient = ServiceClient<PushedUpdate, SummedUpdates>;

class Esync final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add("rounds", rounds_,
            "Number of rounds after which the run ends. auto: as many as the budget allows.")
        .unit("rounds")
        .symbol("T")
        .range(1, kLargestRound)
        .or_zero();
    set.add("update_scale", update_scale_,
            "Global learning rate: factor on the workers' mean update.")
        .symbol("epsilon")
        .above(0);
    set.add("time_slack", time_slack_,
            "Safety margin. A worker stops if its next iteration would end less than this before "
            "the slowest worker's.")
        .unit("s")
        .symbol("eps")
        .at_least(0);
    set.add_choice("weight", weight_, {{"equal", Weight::equal}, {"steps", Weight::steps}},
                   "Weight of a worker's update in the mean. equal is 1/P, and steps is the "
                   "worker's share of all local iterations.");
    set.add_choice("ack", ack_, {{"immediate", Ack::immediate}, {"delayed", Ack::delayed}},
                   "What a worker does after a query to the state server. immediate waits for the "
                   "answer, and delayed trains on until the server says ready.");
    set.add_choice("aggregate", aggregate_,
                   {{"all_reduce", Aggregate::all_reduce}, {"server", Aggregate::server}},
                   "Where the workers' updates are added up: by an all-reduce among them, or on a "
                   "parameter server.");
  }

  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    Local& local = self.state([&] { return Local{self.replica(), self.initial_parameters()}; });
    Buffer& w = local.w;
    if (local.aborted) local.batch = &self.batches().again();
    std::optional<Adder> adder;
    if (aggregate_ == Aggregate::server) {
      adder = Adder{self.serve<UpdateServer>("updates", self.size()), self.vector()};
    }
    auto server = open_state_server(self, time_slack_);
    std::optional<DelayedQueries> delayed;
    if (ack_ == Ack::delayed) delayed.emplace(self, time_slack_, local.round_trip);

    if (local.c_s == 0) {  // at the start, and if it joins
      const Batch& first = self.batches().at({0, b});
      local.c_s = self.rehearse(local.replica, first, self.learning_rate(b)).count();
    }
    for (std::int64_t& t = local.round; self.running(); ++t) {
      self.copy(w, local.replica.w);  // (4)
      const std::int64_t n_i =
          delayed ? train_on(self, *delayed, t, local) : train(self, server, t, local);
      self.observe("local_steps", n_i);
      aggregate(self, n_i, adder, local.replica.w, w);
      self.settle();
      if (static_cast<std::uint64_t>(t) + 1 == rounds_) self.end_budget();
      self.evaluate_here(w);
    }
    local.aborted = local.batch != nullptr;
    if (delayed) local.round_trip = delayed->close();
  }

 private:
  struct Local {
    Replica replica;               // w_{t,k}
    Buffer w;                      // of the round
    std::int64_t round = 0;        // t
    double c_s = 0;                // c
    const Batch* batch = nullptr;  // of an aborted iteration
    bool aborted = false;          // the worker has left with one
    Seconds round_trip{0};         // of the last delayed query

    // The replica begins a round at w.
    void fields(Archive& fields) {
      fields.common("w", w);
      fields.common("round", round);
      replica.optimizer_fields(fields);
      fields("c", c_s);
      fields("aborted", aborted);
      fields("round_trip", round_trip);
    }
  };
  struct Adder {  // --aggregate server
    UpdateClient client;
    Buffer sum;
  };

  // Algorithm 1, lines 8 to 16. Returns n_i.
  static std::int64_t train(Worker& self, StateClient& server, std::int64_t t, Local& local) {
    const std::uint64_t b = self.plan().batch_size;
    double t_e = self.now().count();
    std::int64_t k = 0;
    while (!is_ready(query_state(self, server, {t, k, local.c_s, t_e}).rule)) {
      const double t_s = self.now().count();
      self.learn(local.replica, self.batches().next(b), self.learning_rate(b));  // (5)
      self.pend(b);
      t_e = self.now().count();
      local.c_s = t_e - t_s;
      ++k;
    }
    return k;
  }

  // Like train(), without waiting for answers: a READY aborts the running iteration.
  static std::int64_t train_on(Worker& self, DelayedQueries& queries, std::int64_t t,
                               Local& local) {
    const std::uint64_t b = self.plan().batch_size;
    queries.begin_round(t);
    queries.post({t, 0, local.c_s, self.now().count()});
    for (std::int64_t k = 1;; ++k) {
      if (local.batch == nullptr) local.batch = &self.batches().next(b);
      const double t_s = self.now().count(), lr = self.learning_rate(b);
      if (!self.gradient_cancellable(queries.ready(), local.replica, *local.batch)) return k - 1;
      self.apply_alone(local.replica, lr);  // (5)
      self.pend(b);
      local.batch = nullptr;
      const double t_e = self.now().count();
      local.c_s = t_e - t_s;
      queries.post({t, k, local.c_s, t_e});
    }
  }

  // w <- w + epsilon sum_i weight_i (w_i - w). Leaves w_i as scratch.
  void aggregate(Worker& self, std::int64_t n_i, std::optional<Adder>& adder, Buffer& w_i,
                 Buffer& w) const {
    double weight = 1.0 / self.size();
    if (weight_ == Weight::steps) {
      const auto sum = self.comm().agree(n_i, [](std::span<const std::int64_t> n) {
        return std::accumulate(n.begin(), n.end(), std::int64_t{0});
      });
      weight = static_cast<double>(n_i) / static_cast<double>(*sum);
    }
    self.axpby(-weight, w, weight, w_i);  // (6), (7)
    if (adder) {
      adder->client.call({}, w_i.span(), adder->sum.span(), Traffic::parameters);  // (7)
    } else if (self.size() > 1) {
      self.all_reduce(w_i, Traffic::parameters);  // (7)
    }
    self.axpby(update_scale_, adder ? adder->sum : w_i, 1, w);  // (8)
  }

  std::optional<std::uint64_t> rounds_;
  double update_scale_ = 1;
  Seconds time_slack_{0};
  Weight weight_ = Weight::equal;
  Ack ack_ = Ack::immediate;
  Aggregate aggregate_ = Aggregate::all_reduce;
};

const bool esync_registered = register_algorithm<Esync>({
    .name = "esync",
    .title = "ESync",
    .idea = "In every round a worker trains its replica for as many local iterations as fit until "
            "the slowest worker has done one. A state server tells it when to stop. Then all "
            "average their model updates, so no worker waits long and no gradient is old.",
    .paper = "ESync (Li, Zhou, Yu), algorithms 1 and 2",
    .cost = "two control messages per local iteration; one all_reduce of n elements per round, or "
            "n elements to a server and n back",
    .result = "the averaged model",
    .identities =
        "on equal workers ssgd with full per-worker batches of equally many targets, up to "
        "rounding; one worker = sgd, up to rounding; aggregated by a server or by all_reduce the "
        "same to the bit",
});

}  // namespace
}  // namespace hetsgd
