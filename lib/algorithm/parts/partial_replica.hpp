// A worker of the partial methods, eager-SGD and RNA: the state that its processes share, and their
// work (Li et al., PPoPP 2020; RNA, algorithm 5. The header blocks of eager.cpp and rna.cpp have
// the rest.)
//
// The main process computes gradients, each at a snapshot of the replica x. Whenever a round is
// activated, a background task reduces the finished gradients, so it never waits for one that is
// still being computed. In round k every worker i of a group of P adds its finished gradients up to
// one contribution g'_i (none: the null contribution). Then all make the same update, where c is
// the number of contributors:
//   LocalRules::share gradient    the optimizer's update with (1/P) sum_i g'_i at the rate lr
//                     rate        the same with (1/c) sum_i g'_i at the rate lr c/P
// For plain SGD both are x_{k+1} = x_k - lr (1/P) sum_i g'_i, because only the product of the
// factors on gradient and learning rate matters. Momentum, however, accumulates the scaled
// gradient, and Adam divides by it. When all workers are ready both are the update of synchronous
// SGD for batches of equally many targets: contributions count alike. Replicas are the same on all
// workers of a group after the same number of rounds; the methods differ in how a round is
// activated (Activation).
//
//   main process                                 reducing background task, round k
//     .> running() -- false --> leave --.           .> await: the activation of round k
//     |  x -> snapshot w (not while     |           |  take: pending -> contribution
//     |        x is updated)            |           |  combine, partial_all_reduce of the group
//     |  gradient at w                  |           |  updating: the update of x
//     |  deposit: -> pending            |           |    (between groups: replace)
//     |  offer: asks for a round        |           |  evaluate_here, on one rank
//     |  wait: next model, or ahead     |           |  finish_round: round k + 1, not updating
//     '- local step: w <- w - lr g / P  |           '- until last: then ended
//        wait: ended  <-----------------'
//
// A gradient has one of three owners: `pending_` (oldest first), the contribution that is being
// reduced, and `free_`, whose memory the next gradient takes. It changes owners with the monitor
// held. The owning process reads and writes its elements without the monitor.
//
// x is guarded by `updating_`, not by the monitor alone, because the update is a computation that
// must not block the main process in its own. The background task sets the flag with the monitor
// held and writes x without it. The main process copies x with the monitor held while the flag is
// clear, so that no snapshot mixes two rounds.
//
// Local training (LocalRules): a worker that continues without a new model moves its snapshot by
// the gradient's effect in a round of its own, w <- w - lr (1/P) g, and computes the next gradient
// there. The next model replaces the snapshot: x sees these gradients only in rounds, each once.
// The step is plain SGD whatever the optimizer, whose state belongs to x. The gradient may be in a
// contribution by then. Both only read it, and its memory comes back to this process alone.
//
// End: a worker whose loop is over asks for one more round, which it marks as the last
// (partial_all_reduce). All background tasks end with the same round, so none is left in a
// collective. A gradient that is deposited after that is never reduced.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algorithm/worker.hpp"
#include "collective/partial.hpp"

namespace hetsgd {

inline constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

// The factor that the share c/P of contributors scales (see above).
enum class Share { gradient, rate };

// The gradients that make a worker ready for a round: all that it may contribute, or only those
// that were computed at the newest model.
enum class Trigger { any, fresh };

// The treatment of a worker's gradients. The bounds apply when a gradient is deposited and again
// when a round takes the gradients. A dropped gradient is observed as "dropped", by its age in
// rounds.
struct LocalRules {
  // Several gradients become g' = sum_t a(t, t_0) g_t / sum_t a(t, t_0), with t the round whose
  // model g_t was computed at, and t_0 that of the oldest one; null: their sum.
  double (*weight)(std::int64_t t, std::int64_t t_0) = nullptr;
  std::int64_t keep = kNoBound;     // gradients kept at most, the newest; older ones are dropped
  std::int64_t max_age = kNoBound;  // rounds at most between its model and its reduction
  std::int64_t ahead = 1;       // gradients at one model before the worker waits for the next model
  bool local_training = false;  // all but the first use a snapshot that they move
  Share share = Share::gradient;
  bool groups = false;  // workers form groups, whose replicas differ
  // The hosts reduce. A gradient is copied to them at the end of its step, before its worker asks
  // for a round (RNA, section 5.4: the WriteOp), and the sum is copied back in every round.
  bool staging = true;
};

// Declares --staging, for both methods.
void declare_staging(OptionSet& set, bool& staging);

class PartialReplica;

// How a round begins. One object per worker, shared by its processes: its state is guarded by the
// replica's monitor. No call is made with the monitor held, since all of them may block.
class Activation {
 public:
  virtual ~Activation() = default;
  // Main process, whose Worker `self` is: a gradient has been deposited. `fresh`: it was computed
  // at the newest model of that moment.
  virtual void offer(Worker& self, PartialReplica& replica, bool fresh) = 0;
  // Main process: its loop is over, and replica.leaving() is true from now on. A round must come.
  virtual void leave(Worker& self, PartialReplica& replica) = 0;
  // Reducing background task: blocks until `round` is activated. Returns the rank in the group that
  // speaks for all in this round: the initiator, if there is one. The same on all ranks of the
  // group.
  virtual int await(PartialReplica& replica, std::int64_t round) = 0;
};

class PartialReplica {
 public:
  // The processes share it: use make_shared, and a copy for each process.
  PartialReplica(Worker& self, const LocalRules& rules);
  // Maximum number of model-sized vectors of one replica: x, the snapshot, the sum, and gradients.
  // `ahead` gradients are late, at the model before, and `ahead` are new. If fewer, `keep` wait,
  // `keep` are being reduced, and one is being computed.
  static double vectors(const LocalRules& rules);

  // Between two segments of a run, when its processes have ended.
  void fields(Archive& fields);

  // --- main process
  // The worker's whole life. Returns when its reducing background task has ended: until then the
  // replica is measured, and other workers need this one in their rounds.
  void compute(Worker& self, Activation& activation);

  // --- reducing background task
  // Collective in a group, before the first round. Workers that have joined it after a loss take x
  // and what belongs to it from a worker that was there. Until then their main processes wait.
  void catch_up(Comm& group);
  // Makes the contribution of this round, reduces it over `group` and updates x. The main process
  // does not use x until finish_round. Collective in the group. A round without any contributor
  // leaves x as it is; a leaving worker asks for such a round. The learning rate follows the
  // gradients counted before the round, so that it is the same on all ranks.
  PartialSum reduce(Worker& self, Comm& group);
  // x <- model. gradients: the number that all workers together have learnt it from. Call it
  // between reduce() and finish_round(), while x belongs to this process. `model` may be scratch().
  void replace(Worker& self, std::span<const float> model, std::int64_t gradients);
  // Gradients that all workers have accounted for, as far as this worker knows.
  std::int64_t gradients() const { return gradients_; }
  // The round is over, and the main process may use x. last: no round will follow.
  void finish_round(bool last);
  const Buffer& x() const { return x_.w; }
  // Room for a model; free between reduce() calls.
  std::span<float> scratch() { return sum_.span().first(x_.w.size()); }
  // The mean time of this worker's iterations, but at least the time of the current one so far. So
  // a worker that has finished none is as slow as it has been until now. `error` is the standard
  // error of the mean, 0 if fewer than two are finished. Training clock.
  struct IterationTime {
    Seconds mean, error;
  };
  IterationTime iteration_time(Seconds now);

  // --- all processes; with the monitor held
  Monitor& monitor() { return *monitor_; }
  std::int64_t round() const { return round_; }  // rounds that x has seen
  // Whether there is something to contribute. A gradient that the round would drop for its age does
  // not count. Otherwise a round that it began could end without a contribution and make the
  // gradients in progress too old as well, for ever.
  bool ready(Trigger trigger) const;
  bool leaving() const { return leaving_; }
  bool ended() const { return ended_; }

 private:
  // A gradient that waits for a round. Its age is round_ - round.
  struct Pending {
    Gradient g;
    std::int64_t round = 0;  // round of the model that it was computed at
    std::uint64_t iteration = 0;

    void fields(Archive& fields) {
      fields("g", g);
      fields("round", round);
      fields("iteration", iteration);
    }
  };

  bool deposit(Worker& self, Pending done, Seconds took);
  std::optional<double> await_model(Worker& self, std::int64_t at, std::int64_t computed);
  void drop_old(Worker& self);
  std::vector<Pending> take(Worker& self, PartialShare& share);
  void combine(Worker& self, std::span<const Pending> ready, int p);
  void update(Worker& self, double share, double lr);
  double learning_rate(Worker& self) const;
  void record_event(Worker& self, std::span<const Pending> ready) const;

  const LocalRules rules_;
  const std::function<Gradient()> make_gradient_;  // while it is loaded
  std::unique_ptr<Monitor> monitor_;
  Replica x_;   // x_.w: written by the reducing background task, while updating_ is set
  Buffer sum_;  // [n + tail]; belongs to the reducing background task
  // Gradients of all workers; the reducing background task writes it while updating_ is set.
  std::int64_t gradients_ = 0;
  // Guarded by the monitor.
  std::int64_t round_ = 0;
  std::deque<Pending> pending_;  // oldest first
  std::vector<Gradient> free_;
  int members_;          // P: workers of the group, as the last round told
  int unaccounted_ = 0;  // gradients computed since the last contribution, with dropped ones
  Seconds computing_{0}, started_{0};
  double computing_squares_ = 0;  // sum of the squares of the iterations' seconds
  std::uint64_t iterations_ = 0;
  bool in_iteration_ = false;
  bool updating_ = false;  // x is between two rounds
  bool behind_ = false;    // has joined, and has not yet caught up with its group
  bool leaving_ = false;
  bool ended_ = false;
};

}  // namespace hetsgd
