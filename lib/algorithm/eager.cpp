// eager-solo, eager-majority: eager-SGD. A round of gradient averaging begins when the first worker
// (solo), or one chosen at random (majority), has its gradient. A late worker adds its gradient to
// the next round, and no worker waits for it.
//
// Paper:      Li, Ben-Nun, Di Girolamo, Alistarh, Hoefler, "Taming unbalanced training workloads in
//             deep learning with partial collective operations", PPoPP 2020 (a baseline of RNA,
//             section 5.5.3).
// Implements: w <- w - lr (1/P) sum_i G_i. G_i is the sum of worker i's finished gradients, late
//             ones included, or 0 if it has none (parts/partial_replica.hpp). The optimizer takes
//             (1/P) sum_i G_i as its gradient, however many of them are null. On average P/2
//             workers or more have their gradient when a random one has.
// Symbols:    P --workers, lr --learning-rate, b --batch-size (every worker's), late --late.
// Cost:       per round one all_reduce of n + 3 elements, in which all take part, and
//             P ceil(log2 P) messages without content, which activate it; the hosts reduce, as
//             with RNA (--staging): 4 n bytes from a GPU to its host after each step, and 4 n back
//             per round.
// Records:    histograms "contributors" per round, "staleness" (rounds between the model that a
//             gradient was computed at and its reduction), "dropped" (the same of dropped ones);
//             event "contribution" {rank, round, iterations, staleness} under --record-steps.
// Deviations: replicas never differ, so the periodic synchronisation of models is not needed: the
//             background task makes every update, and a worker that missed several continues at
//             the newest model. The activation uses the pattern of a dissemination barrier.

#include <algorithm>
#include <mutex>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/partial_replica.hpp"
#include "core/random.hpp"

namespace hetsgd {
namespace {

using Guard = std::lock_guard<Monitor>;

enum class Late { accumulate, drop };
enum class Initiator { first, random };

// Rounds that can overlap use different tags; only two can (see listen).
int activation_tag(std::int64_t round) { return static_cast<int>(round % 2); }

// Activation from worker to worker: each passes a round on when it first hears of it.
class Flood final : public Activation {
 public:
  // round: the first one.
  Flood(Worker& self, Initiator initiator, std::int64_t round)
      : rank_(self.rank()),
        size_(self.size()),
        seed_(self.plan().seed),
        initiator_(initiator),
        activated_(round),
        heard_(round) {}

  // A late gradient does not activate a round.
  void offer(Worker&, PartialReplica& replica, bool fresh) override {
    const Guard guard(replica.monitor());
    if (fresh && may_initiate(replica.round())) activate(replica, replica.round());
  }

  void leave(Worker&, PartialReplica& replica) override {
    const Guard guard(replica.monitor());
    replica.monitor().notify_all();
  }

  int await(PartialReplica& replica, std::int64_t round) override {
    const Guard guard(replica.monitor());
    replica.monitor().wait(
        [&] { return (activated_ > round || replica.leaving()) && heard_ >= round; },
        "the activation of a round");
    return 0;
  }

  // The listening background task: it receives every message of every round, so that none is left
  // at the end. It receives all messages of a round before it begins the next, so at most two
  // rounds have messages in flight to a rank.
  void listen(Comm& comm, PartialReplica& replica, std::int64_t first_round) {
    for (std::int64_t round = first_round;; ++round) {
      for (int i = 0; i < activation_messages(comm.size()); ++i) {
        receive_activation(comm, activation_tag(round));
        const Guard guard(replica.monitor());
        activate(replica, round);
      }
      const Guard guard(replica.monitor());
      heard_ = round + 1;
      replica.monitor().notify_all();
      replica.monitor().wait([&] { return replica.round() > round; }, "the end of a round");
      if (replica.ended() && replica.round() == round + 1) return;
    }
  }

 private:
  bool may_initiate(std::int64_t round) const {
    if (initiator_ == Initiator::first) return true;
    RandomStream random(seed_, Purpose::peer_choice, static_cast<std::uint64_t>(round));
    return random.below(static_cast<std::uint64_t>(size_)) == static_cast<std::uint64_t>(rank_);
  }

  void activate(PartialReplica& replica, std::int64_t round) {
    activated_ = std::max(activated_, round + 1);
    replica.monitor().notify_all();
  }

  const int rank_, size_;
  const std::uint64_t seed_;
  const Initiator initiator_;
  std::int64_t activated_;  // rounds; both guarded by the replica's monitor
  std::int64_t heard_;      // rounds of which all messages have come
};

template <Initiator initiator>
class Eager final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add_choice("late", late_, {{"accumulate", Late::accumulate}, {"drop", Late::drop}},
                   "Use of a gradient that missed its round. accumulate adds it to the worker's "
                   "next contribution, and drop discards it.");
    declare_staging(set, staging_);
  }

  double model_vectors(const Plan&) const override { return PartialReplica::vectors(rules()); }

  void worker(Worker& self) const override {
    const auto replica = self.shared_state([&] { return PartialReplica(self, rules()); });
    const std::int64_t round = replica->round();
    const auto activation = std::make_shared<Flood>(self, initiator, round);
    self.background_task(
        "listen", [=](Worker& listener) { activation->listen(listener.comm(), *replica, round); });
    self.background_task("reduce",
                         [=](Worker& reducer) { reduce(reducer, *replica, *activation, round); });
    replica->compute(self, *activation);
  }

 private:
  static void reduce(Worker& self, PartialReplica& replica, Flood& activation,
                     std::int64_t first_round) {
    for (std::int64_t round = first_round;; ++round) {
      activation.await(replica, round);
      pass_on_activation(self.comm(), activation_tag(round));
      const PartialSum result = replica.reduce(self, self.comm());
      if (self.rank() == 0) self.evaluate_here(replica.x());
      replica.finish_round(result.last);
      if (result.last) return;
    }
  }

  LocalRules rules() const {
    return {.max_age = late_ == Late::drop ? 0 : kNoBound, .staging = staging_};
  }

  Late late_ = Late::accumulate;
  bool staging_ = true;
};

AlgorithmInfo info(const std::string& name, const std::string& title, const std::string& idea) {
  return {
      .name = name,
      .title = title,
      .idea = idea,
      .paper = "Li et al. 2020 (eager-SGD); baseline of RNA (Yang 2022, section 5.5.3)",
      .cost =
          "one all_reduce of n elements, 2 n elements between GPU and host, and P log2 P empty "
          "messages per round",
      .result = "the replicas' common model",
      .identities =
          "all gradients ready = ssgd with full per-worker batches of equally many targets, up to "
          "rounding; so is one worker sgd",
      .synchronous = false,
  };
}

const bool solo = register_algorithm<Eager<Initiator::first>>(
    info("eager-solo", "Eager-SGD (solo)",
         "The first worker that has its gradient starts the averaging; a worker without one "
         "contributes zero. Late gradients go into the next round, so that no worker waits."));
const bool majority = register_algorithm<Eager<Initiator::random>>(
    info("eager-majority", "Eager-SGD (majority)",
         "A worker chosen at random starts the averaging when it has its gradient; on average half "
         "of the others have theirs by then. Late gradients go into the next round."));

}  // namespace
}  // namespace hetsgd
