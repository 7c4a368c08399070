// local-sgd: H local steps, then the replicas are averaged; or, what they have moved on average is
// taken as the gradient of an outer optimizer.
//
// Paper:      Stich, "Local SGD converges fast and communicates little", ICLR 2019 (algorithm 1:
//             the mean); Douillard et al., "DiLoCo: distributed low-communication training of
//             language models", 2023, algorithm 1 (inner AdamW, outer Nesterov: --optimizer adam,
//             --outer-optimizer nesterov --outer-learning-rate 0.7 --outer-momentum 0.9).
// Implements: w_i <- x;  H times w_i <- inner(w_i, g_i);  delta = x - (1/P) sum_i w_i;
//             x <- outer(x, delta): sgd x - eta delta, momentum v <- beta v + delta, x - eta v,
//             nesterov x - eta (delta + beta v).
// Symbols:    x global model, w_i replica, H --local-steps, P --workers, eta --outer-learning-rate,
//             beta --outer-momentum, lr --learning-rate, b --batch-size (every worker's).
// Cost:       one all_reduce of n elements per H iterations.
// Records:    histogram "local_steps".
// Deviations: the last round of a run has as many steps as its budget gives. The inner optimizers
//             keep their state from round to round, as DiLoCo's do. Outer sgd is computed as
//             (1 - eta) x + eta mean, which is the mean to the bit for eta = 1.

#include <algorithm>

#include "algorithm/algorithm.hpp"
#include "core/options.hpp"

namespace hetsgd {
namespace {

class LocalSgd final : public Algorithm {
 public:
  LocalSgd() { outer_.kind = OptimizerKind::sgd; }

  void declare(OptionSet& set) override {
    set.add("local_steps", local_steps_, "Number of steps of every worker between two averagings.")
        .unit("steps")
        .symbol("H")
        .range(1, kLargestRound);
    set.add_choice("outer_optimizer", outer_.kind,
                   {{"sgd", OptimizerKind::sgd},
                    {"momentum", OptimizerKind::momentum},
                    {"nesterov", OptimizerKind::nesterov}},
                   "Optimizer that makes the next global model from the mean update of a round.");
    set.add("outer_learning_rate", outer_learning_rate_, "Learning rate of the outer optimizer.")
        .symbol("eta")
        .above(0);
    set.add("outer_momentum", outer_.momentum,
            "Momentum of --outer-optimizer momentum or nesterov.")
        .symbol("beta")
        .range(0, 1);
  }

  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    auto& [inner, outer, h, k, samples] = self.state([&] {
      return State{self.replica(), outer_replica(self)};
    });
    Buffer &w_i = inner.w, &x = outer.w;
    while (self.running()) {
      if (h == 0) h = steps_of_round(self, samples);
      for (; k < h; ++k) {
        self.learn(inner, self.batches().next(b), self.learning_rate(b));
      }
      if (self.size() > 1) self.all_reduce(w_i, Traffic::parameters);
      self.observe("local_steps", static_cast<std::int64_t>(h));
      samples += h * b * static_cast<std::uint64_t>(self.size());
      outer_step(self, w_i, outer);
      self.copy(x, w_i);
      h = k = 0;
      self.evaluate_here(x, samples);
    }
  }

 private:
  struct State {
    Replica inner, outer;
    std::uint64_t h = 0;  // steps of the round; 0 between rounds
    std::uint64_t k = 0;  // steps of it that are done
    std::uint64_t samples = 0;
    void fields(Archive& fields) {
      fields.common("outer", outer);
      fields.common("samples", samples);
      if (fields.is_loading()) fields.common("outer/w", inner.w);
      fields.mid_round("inner", inner.w);
      fields.common("steps", h);
      fields.mid_round("step", k);
      inner.optimizer_fields(fields);
    }
  };

  Replica outer_replica(Worker& self) const {
    Replica outer = self.replica();
    if (outer_.kind != OptimizerKind::sgd) outer.optimizer = self.make_optimizer(outer_);
    return outer;
  }

  std::uint64_t steps_of_round(Worker& self, std::uint64_t samples) const {
    const std::uint64_t budget = self.plan().max_samples;
    if (budget <= samples) return local_steps_;
    const std::uint64_t global_batch =
        self.plan().batch_size * static_cast<std::uint64_t>(self.size());
    return std::min(local_steps_, (budget - samples + global_batch - 1) / global_batch);
  }

  // `sum` is sum_i w_i, and scratch afterwards.
  void outer_step(Worker& self, Buffer& sum, Replica& outer) const {
    const double share = 1.0 / self.size();
    if (!outer.optimizer) {
      return self.axpby(outer_learning_rate_ * share, sum, 1 - outer_learning_rate_, outer.w);
    }
    self.axpby(1, outer.w, -share, sum);  // delta
    self.compute_vectors(outer.optimizer->passes(), [&] {
      outer.optimizer->update(self.device(), outer_learning_rate_, sum.span(), outer.w.span());
    });
  }

  std::uint64_t local_steps_ = 16;
  OptimizerOptions outer_;
  double outer_learning_rate_ = 1;
};

const bool local_sgd_registered = register_algorithm<LocalSgd>({
    .name = "local-sgd",
    .title = "Local SGD",
    .idea = "Workers make a fixed number of steps on replicas of their own, then average them. An "
            "outer optimizer may take the mean update as its gradient, as in DiLoCo.",
    .paper = "Stich 2019, algorithm 1; Douillard et al. 2023 (DiLoCo), algorithm 1",
    .cost = "one all_reduce of n elements every H iterations",
    .result = "the global model",
    .identities = "one worker = sgd to the bit; H = 1 = ssgd with full per-worker batches of "
                  "equally many targets, up to rounding",
    .lockstep = true,
});

}  // namespace
}  // namespace hetsgd
