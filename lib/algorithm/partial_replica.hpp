// A worker of the partial methods, eager-SGD and RNA: what its processes share, and what they do.
//
// The main process computes gradients, each at a snapshot of the replica x. A companion reduces
// what is there, whenever a round is activated, and so never waits for a gradient that is still
// being computed. In round k every worker i of a group of P adds up what it has ready to one
// contribution g'_i (nothing: the null contribution), and all make the same update:
//   x_{k+1} = x_k - lr (1/P) sum_i g'_i
// which is lr (contributors/P) times the mean of the contributions. When all are ready it is the
// update of synchronous SGD. Replicas are the same on all workers of a group after the same number
// of rounds; how a round is activated makes the methods differ (Activation).
//
// End: a worker whose loop is over asks for one more round, and says in it that it is the last
// (partial_all_reduce): all companions end with the same round, so none is left in a collective.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "algorithm/worker.hpp"
#include "collective/partial.hpp"

namespace hetsgd {

inline constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

// What becomes of a worker's gradients.
struct LocalRules {
  // Several become g' = sum_t (t - t_0 + 1) g_t / sum_t (t - t_0 + 1), t the round whose model g_t
  // was computed at, t_0 the oldest one's (paper 004, section 5.1.3); otherwise their sum.
  bool weighted = false;
  std::int64_t keep = kNoBound;     // at most so many, the newest; older ones are dropped
  std::int64_t max_age = kNoBound;  // at most so many rounds between its model and its reduction
  std::int64_t ahead = 1;  // gradients at one model before the worker waits for the next model
};

class PartialReplica;

// How a round begins. One object per worker, shared by its processes.
class Activation {
 public:
  virtual ~Activation() = default;
  // Main process: a gradient has come. `fresh`: it was computed at the newest model.
  virtual void offer(PartialReplica& replica, bool fresh) = 0;
  // Main process: its loop is over, replica.leaving() is true from now on. A round must come.
  virtual void leave(PartialReplica& replica) = 0;
  // Reducing companion: returns when `round` is activated. The rank in the group that speaks for
  // all in this round: the initiator, where there is one.
  virtual int await(PartialReplica& replica, std::int64_t round) = 0;
};

class PartialReplica {
 public:
  // Shared by the processes: make_shared, and a copy for each.
  PartialReplica(Worker& self, const LocalRules& rules);

  // --- main process
  // The worker's whole life; returns when its reducing companion has ended.
  void compute(Worker& self, Activation& activation);

  // --- reducing companion
  // Makes the contribution of this round, reduces it over `group` and updates x. The main process
  // keeps away from x until finish_round.
  PartialSum reduce(Worker& self, Comm& group);
  // x <- model, which all workers together have learnt from so many gradients.
  void replace(Worker& self, std::span<const float> model, std::int64_t gradients);
  // Gradients that all workers have accounted for, as far as this one can tell.
  std::int64_t gradients() const { return gradients_; }
  // The round is over: the main process may use x. The last one: nothing will follow.
  void finish_round(bool last);
  const Buffer& x() const { return x_; }
  // Room for a model; free between reduce() calls.
  std::span<float> scratch() { return sum_.span().first(x_.size()); }
  // Mean time of this worker's iterations, and at least that of the one under way.
  Seconds iteration_time(Seconds now);

  // --- all processes; with the monitor held
  Monitor& monitor() { return *monitor_; }
  std::int64_t round() const { return round_; }     // rounds that x has seen
  bool ready() const { return !pending_.empty(); }  // something to contribute
  bool leaving() const { return leaving_; }
  bool ended() const { return ended_; }

 private:
  struct Pending {
    Gradient g;
    std::int64_t round = 0;  // of the model that it was computed at
    std::uint64_t iteration = 0;
  };

  bool deposit(Worker& self, Pending done, Seconds took);
  void drop_old(Worker& self);
  std::vector<Pending> take(Worker& self, PartialShare& share);
  void combine(Worker& self, std::span<const Pending> ready, int p);
  double learning_rate(Worker& self) const;
  void note(Worker& self, std::span<const Pending> ready) const;

  const LocalRules rules_;
  std::unique_ptr<Monitor> monitor_;
  Buffer x_;                    // written by the reducing companion, with the monitor held
  Buffer sum_;                  // [n + tail]; the reducing companion's
  std::int64_t gradients_ = 0;  // all workers'; the reducing companion's
  // Guarded by the monitor.
  std::int64_t round_ = 0;
  std::deque<Pending> pending_;  // oldest first
  std::vector<Gradient> free_;
  int unaccounted_ = 0;  // gradients computed since the last contribution, dropped ones too
  Seconds computing_{0}, started_{0};
  std::uint64_t iterations_ = 0;
  bool in_iteration_ = false;
  bool updating_ = false;  // x is between two rounds
  bool leaving_ = false;
  bool ended_ = false;
};

}  // namespace hetsgd
