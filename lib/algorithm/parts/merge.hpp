// Model merging once per mega-batch: the common part of elastic and adaptive (Adaptive SGD, section
// 2.2 and algorithm 2, lines 11 and 12).
//
//   every worker   trains w_i for one mega-batch
//        -> agree  u_i, norms -> weights alpha_i, the same on all ranks (adaptive; elastic: 1/P)
//        -> merge  w <- sum_i alpha_i w_i + gamma (w - w_p), on every rank the same bits
//        -> w_i <- w, and the next mega-batch begins
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "algorithm/worker.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd {

// One merge as the result shows it, together with the learning rates lr_i at the merge; element i
// belongs to worker i. Complete: an outside script can recompute algorithms 1 and 2 of Adaptive SGD
// from it. Comm::agree makes it, and workers that share memory share one.
struct Merge {
  std::vector<std::uint64_t> batch_size;  // b_i of the finished mega-batch
  std::vector<std::uint64_t> updates;     // u_i
  std::vector<double> weight{};           // alpha_i, after perturbation
  std::vector<double> norm;               // regularity of w_i: ||w_i||_2 / |w|, or its rms
  bool perturbed = false;

  // Samples of the finished mega-batch, over all workers.
  std::uint64_t samples() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) sum += updates[i] * batch_size[i];
    return sum;
  }
};

// The number of rounds of `round` samples (a batch of b_max on every worker) that have at least
// `samples` samples: elastic's K.
inline std::uint64_t whole_rounds(std::uint64_t samples, std::uint64_t round) {
  return (samples + round - 1) / round;
}

// Warns before a run whose replicas are merged after `samples` each, if these are more than a
// quarter of an epoch. Then the replicas drift apart, and a run has few merges.
inline std::vector<std::string> rare_merge_warnings(const Plan& plan, std::uint64_t samples) {
  const double epochs = static_cast<double>(samples) / static_cast<double>(plan.rows);
  if (plan.workers == 1 || epochs <= 0.25) return {};
  const auto p = static_cast<std::uint64_t>(plan.workers);
  const std::uint64_t quarter = std::max<std::uint64_t>(1, plan.rows / 4 / (p * plan.batch_size));
  return {fmt::format(
      "the replicas are merged once in {:.3g} epochs ({} samples of {} training rows), which may "
      "be too rare; --mega-batch {} merges after a quarter of an epoch, a smaller --batch-size "
      "after fewer samples",
      epochs, samples, plan.rows, quarter * p)};
}

// Appends the event; rank 0 records for all. The learning rates are those of the schedule at the
// merge, so call this before the epoch moves on, at the same place in every round.
inline void record(Worker& self, const Merge& merge) {
  if (self.rank() != 0) return;
  double sum = 0;
  for (const double alpha : merge.weight) sum += alpha;
  std::vector<double> learning_rate;
  for (const std::uint64_t b : merge.batch_size) learning_rate.push_back(self.learning_rate(b));
  nlohmann::json event = {{"type", "merge"},
                          {"batch_size", merge.batch_size},
                          {"learning_rate", learning_rate},
                          {"updates", merge.updates},
                          {"weight", merge.weight},
                          {"weight_sum", sum},
                          {"norm", merge.norm},
                          {"perturbed", merge.perturbed}};
  if (self.size() < self.plan().workers) event["workers"] = self.view();  // whose entries they are
  self.record(std::move(event));
}

// Calls a function at the end of a scope that an exception leaves.
template <class Fn>
class AtUnwinding : NonCopyable {
 public:
  explicit AtUnwinding(Fn fn) : fn_(std::move(fn)) {}
  ~AtUnwinding() {
    if (std::uncaught_exceptions() > exceptions_) fn_();
  }

 private:
  Fn fn_;
  const int exceptions_ = std::uncaught_exceptions();
};

// The global model and the one before it, a copy of both on every worker. The copies need no
// message to stay alike: they begin with the same bits, and all_reduce gives the same bits
// everywhere. Before the first merge w_p = w, so that it has no momentum.
class GlobalModel {
 public:
  explicit GlobalModel(Worker& self)
      : w_(self.initial_parameters()), previous_(self.initial_parameters()) {}

  // w' = sum_i alpha_i w_i + gamma (w - w_p);  w_p <- w;  w <- w';  w_i <- w.   (Adaptive SGD,
  // algorithm 2, lines 11, 12)
  // Collective. w_i serves as scratch on the way, so there is no vector for the sum. The alphas
  // need not add up to 1: perturbed ones do not, and they are not normalised again.
  void merge(Worker& self, Buffer& w_i, double alpha_i, double gamma) {
    if (alpha_i != 1.0) self.scale(alpha_i, w_i);
    {
      // If another worker is lost meanwhile, w_i keeps what it has learnt.
      const AtUnwinding unscale([&] {
        if (alpha_i == 1.0) return;
        if (alpha_i == 0.0) return self.device().copy(w_i.size(), w_.data(), w_i.data());
        const auto inverse = static_cast<float>(1 / alpha_i);
        self.device().axpby(w_i.size(), inverse, w_i.data(), 0.0F, w_i.data());
      });
      if (self.size() > 1) self.all_reduce(w_i, Traffic::parameters);
    }
    self.momentum_merge(w_i, gamma, w_, previous_);
    self.copy(w_, w_i);
  }

  // With a worker's replica, which is equal to w after a merge. Its optimizer is its own.
  void fields(Archive& fields, Replica& replica) {
    fields.common("w", w_);
    fields.common("previous", previous_);
    if (fields.is_loading()) fields.common("w", replica.w);
    fields.mid_round("w_i", replica.w);
    replica.optimizer_fields(fields);
  }

 private:
  Buffer w_, previous_;
};

}  // namespace hetsgd
