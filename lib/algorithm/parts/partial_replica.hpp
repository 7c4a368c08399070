// A worker of the partial methods, eager-SGD and RNA: what its processes share, and what they do.
// (Li et al., PPoPP 2020; paper 004, chapter 5, algorithm 5. The header blocks of eager.cpp and
// rna.cpp have the rest.)
//
// The main process computes gradients, each at a snapshot of the replica x. A background task
// reduces what is there, whenever a round is activated, and so never waits for a gradient that is
// still being computed. In round k every worker i of a group of P adds up what it has ready to one
// contribution g'_i (nothing: the null contribution), and all make the same update, with c the
// number of contributors:
//   LocalRules::share gradient    the optimizer's update with (1/P) sum_i g'_i at the rate lr
//                     rate        the same with (1/c) sum_i g'_i at the rate lr c/P
// Both are x_{k+1} = x_k - lr (1/P) sum_i g'_i for plain SGD, where the factors of gradient and
// rate are one; momentum remembers the one of the gradient, and Adam divides by it. When all are
// ready both are the update of synchronous SGD. Replicas are the same on all workers of a group
// after the same number of rounds; how a round is activated makes the methods differ (Activation).
//
//   main process                                 reducing background task, round k
//     ┌> running() ── false ──> leave ──┐           ┌> await: the activation of round k
//     |  x -> snapshot w (not while     |           |  take: pending -> contribution
//     |        x is updated)            |           |  combine, partial_all_reduce of the group
//     |  gradient at w                  |           |  updating: the update of x
//     |  deposit: -> pending            |           |    (between groups: replace)
//     |  offer: asks for a round        |           |  evaluate_here, on one rank
//     |  wait: next model, or ahead     |           |  finish_round: round k + 1, not updating
//     └─ local step: w <- w - lr g / P  |           └─ until last: then ended
//        wait: ended  <─────────────────┘
//
// A gradient is owned by one of three places: `pending_` (oldest first), the contribution that is
// being reduced, and `free_`, whose memory the next gradient takes. It moves between them with the
// monitor held; its numbers are touched without it, by the process that holds it.
//
// x is guarded by `updating_`, not by the monitor alone: the update is a computation, which must
// not hold the main process up in its own. The background task sets the flag with the monitor held
// and writes x without it. The main process copies x with the monitor held while the flag is clear,
// so that no snapshot is half of two rounds.
//
// Local training (LocalRules): a worker that goes on without a new model moves its snapshot by what
// the gradient would do in a round of its own, w <- w - lr (1/P) g, and computes the next one
// there. The next model replaces the snapshot: x sees these gradients in rounds alone, each once.
// The step is plain SGD whatever the optimizer, whose state is that of x. The gradient may be in a
// contribution by then: both only read it, and its memory comes back to this process alone.
//
// End: a worker whose loop is over asks for one more round, and says in it that it is the last
// (partial_all_reduce): all background tasks end with the same round, so none is left in a
// collective. A gradient that is deposited after that is never reduced.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algorithm/worker.hpp"
#include "collective/partial.hpp"

namespace hetsgd {

inline constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

// What the share c/P of contributors scales (see above).
enum class Share { gradient, rate };

// Which gradients make a worker ready for a round: any that it may contribute, or those alone that
// were computed at the newest model.
enum class Trigger { any, fresh };

// What becomes of a worker's gradients. The bounds apply when a gradient is deposited and again
// when a round takes them; what is dropped is observed as "dropped", by its age in rounds.
struct LocalRules {
  // Several become g' = sum_t a(t, t_0) g_t / sum_t a(t, t_0), t the round whose model g_t was
  // computed at, t_0 the oldest one's; null: their sum.
  double (*weight)(std::int64_t t, std::int64_t t_0) = nullptr;
  std::int64_t keep = kNoBound;     // at most so many, the newest; older ones are dropped
  std::int64_t max_age = kNoBound;  // at most so many rounds between its model and its reduction
  std::int64_t ahead = 1;       // gradients at one model before the worker waits for the next model
  bool local_training = false;  // those after the first, at a snapshot that they move on
  Share share = Share::gradient;
  bool staging = true;  // the hosts reduce: a contribution is copied to them, and the sum back
};

// --staging, for both methods.
void declare_staging(OptionSet& options, bool& staging);

class PartialReplica;

// How a round begins. One object per worker, shared by its processes: its state is guarded by the
// replica's monitor. No call is made with the monitor held, since all of them may block.
class Activation {
 public:
  virtual ~Activation() = default;
  // Main process, whose Worker `self` is: a gradient has come. `fresh`: it was computed at the
  // newest model of that moment.
  virtual void offer(Worker& self, PartialReplica& replica, bool fresh) = 0;
  // Main process: its loop is over, replica.leaving() is true from now on. A round must come.
  virtual void leave(Worker& self, PartialReplica& replica) = 0;
  // Reducing background task: returns when `round` is activated. The rank in the group that speaks
  // for all in this round: the initiator, where there is one. The same on all ranks of the group.
  virtual int await(PartialReplica& replica, std::int64_t round) = 0;
};

class PartialReplica {
 public:
  // Shared by the processes: make_shared, and a copy for each.
  PartialReplica(Worker& self, const LocalRules& rules);
  // Model-sized vectors of one at most: x, the snapshot, the sum, and gradients. Of these are late,
  // at a model before, and new as many as the rules let it compute at one model; or as many wait
  // and are reduced as it may keep, beside the one that it computes.
  static double vectors(const LocalRules& rules);

  // --- main process
  // The worker's whole life; returns when its reducing background task has ended: until then the
  // replica is measured, and other workers need this one in their rounds.
  void compute(Worker& self, Activation& activation);

  // --- reducing background task
  // Makes the contribution of this round, reduces it over `group` and updates x. The main process
  // keeps away from x until finish_round. Collective in the group. A round without any contributor
  // leaves x as it is: a worker that leaves asks for one. The rate follows the gradients counted
  // before the round, so that it is the same on all ranks.
  PartialSum reduce(Worker& self, Comm& group);
  // x <- model, which all workers together have learnt from so many gradients. Between reduce() and
  // finish_round(), where x is still this process's. `model` may be scratch().
  void replace(Worker& self, std::span<const float> model, std::int64_t gradients);
  // Gradients that all workers have accounted for, as far as this one can tell.
  std::int64_t gradients() const { return gradients_; }
  // The round is over: the main process may use x. The last one: nothing will follow.
  void finish_round(bool last);
  const Buffer& x() const { return x_.w; }
  // Room for a model; free between reduce() calls.
  std::span<float> scratch() { return sum_.span().first(x_.w.size()); }
  // Of this worker's iterations the mean time, and at least that of the one under way: a worker that
  // has finished none yet is as slow as it has been so far; and the mean's standard error, 0 where
  // fewer than two are finished. Training clock.
  struct IterationTime {
    Seconds mean, error;
  };
  IterationTime iteration_time(Seconds now);

  // --- all processes; with the monitor held
  Monitor& monitor() { return *monitor_; }
  std::int64_t round() const { return round_; }  // rounds that x has seen
  // Something to contribute. A gradient that the round would drop for its age is nothing: a round
  // that it began could end without a contribution, and make the gradients that are under way too
  // old as well, for ever.
  bool ready(Trigger trigger) const;
  bool leaving() const { return leaving_; }
  bool ended() const { return ended_; }

 private:
  // A gradient that waits for a round. Its age is round_ - round.
  struct Pending {
    Gradient g;
    std::int64_t round = 0;  // of the model that it was computed at
    std::uint64_t iteration = 0;
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
  std::unique_ptr<Monitor> monitor_;
  Replica x_;   // x_.w: written by the reducing background task, while updating_ is set
  Buffer sum_;  // [n + tail]; the reducing background task's
  // All workers'; written by the reducing background task, while updating_ is set.
  std::int64_t gradients_ = 0;
  // Guarded by the monitor.
  std::int64_t round_ = 0;
  std::deque<Pending> pending_;  // oldest first
  std::vector<Gradient> free_;
  int members_;          // P: of the group, as far as a round has told
  int unaccounted_ = 0;  // gradients computed since the last contribution, dropped ones too
  Seconds computing_{0}, started_{0};
  double computing_squares_ = 0;  // sum of the squares of the iterations' seconds
  std::uint64_t iterations_ = 0;
  bool in_iteration_ = false;
  bool updating_ = false;  // x is between two rounds
  bool leaving_ = false;
  bool ended_ = false;
};

}  // namespace hetsgd
