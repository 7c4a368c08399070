// ssp: stale synchronous parallel. As asgd, but a worker may start its next iteration only while
// the slowest worker is at most s iterations behind; so no gradient is ever older than a bound.
//
// Paper:      Ho et al. 2013 (cited in ESync, section 2).
// Implements: worker at clock c (iterations that it has pushed) continues when min_m c_m >= c - s,
//             and reads then, at the clock boundary; the server applies each push at once.
// Symbols:    s --staleness, c a worker's clock, m the workers that still train.
// Cost:       as asgd; the answer to a push may be deferred.
// Records:    as asgd; histogram "lead": c - min_m c_m of a worker when it continues, at most s.
// Deviations: as asgd; the server has one copy of the parameters, so a read sees everything applied
//             so far and not only the clocks up to c - s; caches of workers are left out.
//
// Learning rate: every push is an update of its own. With s = 0 a read at clock c sees exactly the
// pushes of all clocks below c: w <- w - lr sum_m g_m, which is ssgd with --per-worker-batch full
// (the mean over the global batch of P b samples) at the learning rate P lr, the linear scaling of
// lr to that batch. So one learning rate suits asgd, ssp and, times P, ssgd.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/parameter_server.hpp"
#include "core/options.hpp"

namespace hetsgd {
namespace {

class StaleServer final : public ParameterServer {
 public:
  StaleServer(const ServerStart& start, std::uint64_t s)
      : ParameterServer(start),
        s_(s),
        clock_(static_cast<std::size_t>(start.workers)),
        has_left_(clock_.size()) {
    training_[0] = start.workers;
  }

  void fields(Archive& fields) override {
    ParameterServer::fields(fields);
    fields("clock", clock_);
    if (!fields.is_loading()) return;
    fields.to_ranks_now(clock_, std::ranges::min(clock_));
    training_.clear();
    for (const std::uint64_t c : clock_) ++training_[c];
    slowest_ = training_.begin()->first;
  }

  void pushed(int from, const Push& push, std::span<const float> g,
              Responder<Pull> reply) override {
    apply(push, g);
    std::uint64_t& c = clock_[static_cast<std::size_t>(from)];
    if (has_left_[static_cast<std::size_t>(from)]) {  // sent before its worker was lost
      ++c;
      return answer({.version = version(), .applied = version(), .lead = 0}, reply);
    }
    ++training_[c + 1];
    leave(c++);
    waiting_.push_back({c, version(), std::move(reply)});
    let_go();
  }

  void left(int rank) override {
    has_left_[static_cast<std::size_t>(rank)] = true;
    leave(clock_[static_cast<std::size_t>(rank)]);
    let_go();
  }

 private:
  struct Waiting {
    std::uint64_t clock, applied;
    Responder<Pull> reply;
  };

  void leave(std::uint64_t clock) {
    const auto at = training_.find(clock);
    if (--at->second == 0) training_.erase(at);
  }

  // Answers, in order of arrival, all workers that may continue. Workers that came before the last
  // one may continue only if the slowest worker has moved.
  void let_go() {
    if (waiting_.empty() || training_.empty()) return;
    const std::uint64_t slowest = training_.begin()->first;
    const bool moved = std::exchange(slowest_, slowest) != slowest;
    auto kept = moved ? waiting_.begin() : waiting_.end() - 1;
    for (auto one = kept; one != waiting_.end(); ++one) {
      const std::uint64_t lead = one->clock - slowest;
      if (lead > s_) {
        if (kept != one) *kept = std::move(*one);
        ++kept;
      } else {
        answer({.version = version(), .applied = one->applied, .lead = lead}, one->reply);
      }
    }
    waiting_.erase(kept, waiting_.end());
  }

  std::uint64_t s_;
  std::vector<std::uint64_t> clock_;       // by worker
  std::vector<bool> has_left_;             // by worker: it holds nobody back any more
  std::map<std::uint64_t, int> training_;  // workers that still train, by clock
  std::uint64_t slowest_ = 0;              // clock, when let_go() last looked
  std::vector<Waiting> waiting_;
};

class Ssp final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add("staleness", s_,
            "Number of iterations by which a worker may be ahead of the slowest one.")
        .unit("iterations")
        .symbol("s")
        .range(0, kLargestRound);
  }

  // A worker that waited for the bound continues with a lead of s, so a smaller maximum means no
  // waits.
  std::vector<std::string> remarks(const Histograms& histograms) const override {
    const auto lead = histograms.find("lead");
    if (lead == histograms.end() || lead->second.empty()) return {};
    const auto most = static_cast<std::uint64_t>(lead->second.rbegin()->first);
    if (most >= s_) return {};
    return {
        fmt::format("--staleness {} never acted: no worker was more than {} iterations ahead, so "
                    "the run equals asgd",
                    s_, most)};
  }

  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    auto server = ParameterClient::open<StaleServer>(self, s_);
    Replica replica = server.replica();
    while (self.running()) {
      const double lr = self.learning_rate(b);
      self.gradient(replica, self.batches().next(b));
      const auto lead = server.push_and_pull(lr, replica);  // waits for min_m c_m
      self.observe("lead", static_cast<std::int64_t>(lead));
      self.evaluate_here(replica.w);
    }
  }

 private:
  std::uint64_t s_ = 3;
};

const bool ssp_registered = register_algorithm<Ssp>({
    .name = "ssp",
    .title = "Stale synchronous parallel",
    .idea = "Workers train as in asgd, but one that is s iterations ahead of the slowest waits for "
            "it. The age of gradients is bounded, and slow moments shorter than s iterations cost "
            "nothing.",
    .paper = "Ho et al. 2013; ESync, section 2",
    .cost = "n elements to the server and n back per iteration",
    .result = "the server's model, as the measuring worker has just received it",
    .identities = "s = 0 = ssgd with full per-worker batches of equally many targets at P times "
                  "the learning rate, up to rounding; s beyond the run's length = asgd, to the "
                  "bit; one worker = sgd, up to rounding",
    .synchronous = false,
    .rate_over_workers = true,
});

}  // namespace
}  // namespace hetsgd
