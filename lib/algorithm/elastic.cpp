// elastic: elastic model averaging (K-step averaging). Workers train replicas on equal batches of
// their own and average them once per mega-batch; the average moves on with momentum.
//
// Paper:      Adaptive SGD (Ma et al. 2021), section 2.2, figure 3; momentum as in
//             algorithm 2, lines 11 and 12.
// Implements: K local steps each, then w' = (1/P) sum_i w_i + gamma (w - w_p);  w_p <- w;
//             w <- w';  w_i <- w.
// Symbols:    K mega_batch / (P b_max), rounded up; gamma --gamma; w the global model, w_p the one
//             before it (the initial model before the first merge).
// Cost:       one all_reduce of n elements per mega-batch.
// Deviations: K is rounded up, so a merge comes after up to P - 1 batches more than --mega-batch
//             says: after 104 of 100 at P = 8. adaptive --whole-rounds merges after as many. The
//             paper's figure 3 has the mean alone; the momentum is that of algorithm 2, because
//             "use the same model update rule" is said of both (section 5.2), and is computed on
//             every worker, as there.

#include <cmath>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/merge.hpp"

namespace hetsgd {
namespace {

class Elastic final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add("gamma", gamma_, "Momentum of the global model at a merge.")
        .symbol("gamma")
        .range(0, 1);
  }

  std::vector<std::string> warnings(const Plan& plan, const Layout&) const override {
    const std::uint64_t round = static_cast<std::uint64_t>(plan.workers) * plan.batch_size;
    return rare_merge_warnings(plan, whole_rounds(plan.mega_batch_samples(), round) * round);
  }

  void worker(Worker& self) const override {
    const auto p = static_cast<std::size_t>(self.size());
    const std::uint64_t b = self.plan().batch_size;

    auto& [replica, global, steps, step, samples] = self.state([&] {
      return State{self.replica(), GlobalModel(self)};
    });
    Buffer& w_i = replica.w;
    while (self.running()) {
      if (steps == 0) steps = whole_rounds(self.mega_batch_samples(), p * b);
      const std::uint64_t k = steps;
      for (; step < k; ++step) {
        self.learn(replica, self.batches().next(b), self.learning_rate(b));
      }

      const double norm = std::sqrt(self.squared_norm(w_i)) / static_cast<double>(w_i.size());
      const auto merge = self.comm().agree(norm, [&](std::span<const double> norms) {
        return Merge{.batch_size = std::vector(p, b),
                     .updates = std::vector(p, k),
                     .weight = std::vector(p, 1.0 / static_cast<double>(p)),
                     .norm = {norms.begin(), norms.end()}};
      });
      global.merge(self, w_i, 1.0 / static_cast<double>(p), gamma_);
      record(self, *merge);
      samples += k * p * b;
      steps = step = 0;
      self.evaluate_here(w_i, samples);
    }
  }

 private:
  struct State {
    Replica replica;
    GlobalModel global;
    std::uint64_t steps = 0;    // of the round; 0 between rounds
    std::uint64_t step = 0;     // steps of it that are done
    std::uint64_t samples = 0;  // of all workers
    void fields(Archive& fields) {
      global.fields(fields, replica);
      fields.common("steps", steps);
      fields.mid_round("step", step);
      fields.common("samples", samples);
    }
  };

  double gamma_ = 0.9;
};

const bool elastic_registered = register_algorithm<Elastic>({
    .name = "elastic",
    .title = "Elastic averaging",
    .idea = "Each worker trains a replica on batches of its own; once per mega-batch the replicas "
            "are averaged, with momentum. All workers wait for the slowest worker's share of the "
            "mega-batch.",
    .paper = "Adaptive SGD (Ma et al. 2021), section 2.2, figure 3",
    .cost = "one all_reduce of n elements per mega-batch",
    .result = "the merged model",
    .identities = "one worker = adaptive with one worker; gamma 0 and a mega-batch of P batches = "
                  "ssgd with full per-worker batches of equally many targets, up to rounding",
});

}  // namespace
}  // namespace hetsgd
