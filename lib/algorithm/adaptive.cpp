// adaptive: Adaptive SGD (adaptive batch). A scheduler hands the next batch to an idle worker. Once
// per mega-batch the replicas are merged with weights from their updates, and batch sizes change so
// that all workers make the same number of updates.
//
// Paper:      Adaptive SGD (Ma et al. 2021), section 3, algorithm 1 (batch size scaling)
//             and algorithm 2 (normalized model merging).
// Implements: algorithms 1 and 2 in full; see the functions of these names.
// Symbols:    b_i, lr_i, u_i batch size, learning rate, updates since the last merge of worker i;
//             b_max --batch-size, b_min --batch-min, b_i at first --batch-start, beta --beta,
//             delta --delta, pert_thr --pert-threshold, gamma --gamma; w, w_p the global model and
//             the one before.
// Cost:       two control messages per batch; one all_reduce of n elements and two all_gathers of
//             one number per mega-batch.
// Deviations: algorithm 1 compares P u_i with sum(u) exactly and rounds the new b_i half up; a b_i
//             out of bounds stays as it was (--bounds clamp moves it to the bound). With all u_i
//             equal there is no most-updated replica, so no perturbation. Ties of argmax and
//             argmin: lowest rank. w_p = w before the first merge. Lines 11 and 12, the momentum,
//             are computed on every worker, to the same bits, as in the authors' code (section 4:
//             on the scheduler, "because it requires fewer data transfers"): five streams of n
//             elements on each device, and no message. The norm is divided by sqrt(|w|), not by
//             |w|, because only then can the test fail (the paper's thresholds of 0.05 and 0.10
//             differ in its figure 11; by |w| they would need weights of 500 and more). If workers
//             stay unequal this keeps perturbation from inflating the model: more accurate in three
//             of the four straggler scenarios and with small batches, and nowhere shown to be worse
//             (results/adaptive-ingredients). --pert-norm l2_over_n follows the text to the letter.
//             A batch is never cut, so a mega-batch may have part of a batch more than asked for;
//             --whole-rounds rounds it up to a multiple of P b_max, elastic's samples per merge.
// Scaling:    "the frequency at which scaling is performed can be increased" once it oscillates
//             (section 3.1) is read as a longer period: --scaling-every N merges, each with the u_i
//             of the last mega-batch alone, so the gain below is that of one scaling.
// Warm-up:    --adaptive-warmup-epochs E is in the authors' code, not in the paper. Until epoch E,
//             checked after merges, all workers take batches of b_min at lr b_min/b_max, without
//             scaling and without perturbation; then all begin at b_max. The code lets the learning
//             rate rise over these epochs (--warmup-epochs E does, from 0 instead of 1/100) and
//             counts its decay from there. None by default, because the paper has none.
// Warns:      before a run about rare merges (parts/merge.hpp). During a run, once each: when the
//             merges alone have doubled the model, and when the scaling of batches overshoots
//             (parts/adaptive_warnings.hpp).

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/adaptive_warnings.hpp"
#include "algorithm/parts/batch_scheduler.hpp"
#include "algorithm/parts/merge.hpp"
#include "core/error.hpp"
#include "core/options.hpp"

namespace hetsgd {
namespace {

enum class Bounds { skip, clamp };
enum class PertNorm { rms, l2_over_n };

struct AdaptiveOptions {
  std::optional<std::uint64_t> batch_min;    // b_min; none: b_max / 8
  std::optional<std::uint64_t> batch_start;  // none: b_max
  std::optional<double> beta;                // none: b_min / 2
  double delta = 0.1;
  double pert_threshold = 0.1;
  double gamma = 0.9;
  Bounds bounds = Bounds::skip;
  PertNorm pert_norm = PertNorm::rms;
  std::uint64_t scaling_every = 1;  // merges
  std::optional<double> warmup_epochs;
  bool whole_rounds = false;
};

std::uint64_t rounded_batch_size(double b) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::floor(b + 0.5)));
}

// The parameters of algorithm 1.
struct Scaling {
  double b_min, b_max, beta;
  Bounds bounds;

  static Scaling of(const Plan& plan, const AdaptiveOptions& o) {
    const auto b_max = static_cast<double>(plan.batch_size);
    const double b_min = o.batch_min ? static_cast<double>(*o.batch_min) : b_max / 8;
    return {b_min, b_max, o.beta.value_or(b_min / 2), o.bounds};
  }

  // Algorithm 1. Returns the new b_i of all workers; lr_i follow by linear scaling.
  std::vector<std::uint64_t> operator()(const Merge& merge) const {
    const auto &b = merge.batch_size, &u = merge.updates;
    const auto sum_u = std::accumulate(u.begin(), u.end(), std::uint64_t{0});
    std::vector<std::uint64_t> next;
    for (std::size_t i = 0; i < b.size(); ++i) next.push_back(scaled(b[i], u[i], sum_u, b.size()));
    return next;
  }

 private:
  // The new b_i of one worker.
  std::uint64_t scaled(std::uint64_t b, std::uint64_t u, std::uint64_t sum_u,
                       std::uint64_t p) const {
    if (p * u == sum_u) return b;  // u_i == mu, compared exactly
    const double mu = static_cast<double>(sum_u) / static_cast<double>(p);        // line 1
    double next = static_cast<double>(b) + beta * (static_cast<double>(u) - mu);  // lines 5, 8
    const bool out = p * u > sum_u ? next > b_max : next < b_min;                 // lines 3, 6
    if (out && bounds == Bounds::skip) return b;
    if (out) next = std::clamp(next, b_min, b_max);
    return rounded_batch_size(next);
  }
};

// A merge and the decisions that follow from it, the same on all workers.
struct Agreed {
  Merge merge = {};
  std::vector<std::uint64_t> b = {};  // b_i from now on, or from the end of the warm-up
  std::uint64_t samples = 0;          // of the finished mega-batch, of all workers
};

// Algorithm 2, lines 2 to 10: weights and perturbation from b_i, u_i and the norms.
void weigh(Merge& merge, const AdaptiveOptions& o, bool warm_up) {
  const std::size_t p = merge.updates.size();
  const auto& u = merge.updates;
  const bool equal = std::ranges::all_of(u, [&](std::uint64_t x) { return x == u.front(); });
  const auto& share = equal ? merge.batch_size : u;
  const auto sum =
      static_cast<double>(std::accumulate(share.begin(), share.end(), std::uint64_t{0}));
  for (std::size_t i = 0; i < p; ++i) merge.weight.push_back(static_cast<double>(share[i]) / sum);
  const bool regular =
      std::ranges::all_of(merge.norm, [&](double x) { return x < o.pert_threshold; });
  if (equal || !regular || warm_up) return;
  merge.weight[static_cast<std::size_t>(std::ranges::max_element(u) - u.begin())] *=
      1 + o.delta;  // r
  merge.weight[static_cast<std::size_t>(std::ranges::min_element(u) - u.begin())] *=
      1 - o.delta;  // s
  merge.perturbed = true;
}

class Adaptive final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add("batch_min", o_.batch_min,
            "Smallest mini-batch of a worker. auto: an eighth of --batch-size.")
        .unit("samples")
        .symbol("b_min")
        .at_least(1)
        .or_zero();
    set.add("batch_start", o_.batch_start,
            "Mini-batch of every worker before the first adaptation. auto: --batch-size.")
        .unit("samples")
        .at_least(1);
    set.add("beta", o_.beta,
            "Change of a worker's batch size for each update that it made more or fewer than the "
            "average. auto: half of --batch-min.")
        .unit("samples")
        .symbol("beta")
        .above(0)
        .or_zero();
    set.add("delta", o_.delta,
            "Perturbation of merge weights. The weight of the worker with the most updates grows "
            "by this share, that of the worker with the fewest shrinks by it.")
        .symbol("delta")
        .range(0, 1);
    set.add("pert_threshold", o_.pert_threshold,
            "Merge weights are perturbed only while the norm (--pert-norm) of every replica is "
            "below this value.")
        .symbol("pert_thr")
        .at_least(0);
    set.add("gamma", o_.gamma, "Momentum of the global model at a merge.")
        .symbol("gamma")
        .range(0, 1);
    set.add_choice("bounds", o_.bounds, {{"skip", Bounds::skip}, {"clamp", Bounds::clamp}},
                   "What happens if a new batch size is out of bounds. skip keeps the old size, "
                   "and clamp takes the bound.");
    set.add_choice("pert_norm", o_.pert_norm,
                   {{"rms", PertNorm::rms}, {"l2_over_n", PertNorm::l2_over_n}},
                   "Norm of a replica for --pert-threshold. rms is ||w||_2 / sqrt(n), and "
                   "l2_over_n is ||w||_2 / n as in the paper's text.");
    set.add("scaling_every", o_.scaling_every,
            "Number of merges between two adaptations of the batch sizes.")
        .unit("merges")
        .range(1, kLargestRound);
    set.add("adaptive_warmup_epochs", o_.warmup_epochs,
            "Length of a warm-up in which all workers use --batch-min, without adaptation of batch "
            "sizes and without perturbation.")
        .unit("epochs")
        .above(0)
        .absent("none")
        .or_zero();
    set.add("whole_rounds", o_.whole_rounds,
            "Round a mega-batch up to a whole number of mini-batches for every worker, as elastic "
            "does.");
  }

  void check(const Plan& plan) const override {
    if (plan.partition != Partition::shared) {
      refuse("--partition", "shards", "shared: adaptive dispatches batches from one pool");
    }
    check_at_most("--batch-min", o_.batch_min.value_or(0), "--batch-size", plan.batch_size);
    check_at_most("--batch-start", o_.batch_start.value_or(0), "--batch-size", plan.batch_size);
  }

  std::vector<std::string> warnings(const Plan& plan, const Layout&) const override {
    return rare_merge_warnings(plan, samples_per_merge(plan.mega_batch_samples(), plan));
  }

  void worker(Worker& self) const override {
    const auto p = static_cast<std::size_t>(self.size());
    const auto i = static_cast<std::size_t>(self.rank());
    const std::uint64_t b_start = o_.batch_start.value_or(self.plan().batch_size);
    const Scaling scaling = Scaling::of(self.plan(), o_);
    const std::uint64_t b_warm_up = rounded_batch_size(scaling.b_min);

    State& state = self.state([&] {
      return State{self.replica(), GlobalModel(self),          b_start,
                   nullptr,        InflationWarning(o_.gamma), OvershootWarning(scaling.beta)};
    });
    std::shared_ptr<const Agreed>& last = state.agreed;
    Buffer& w_i = state.replica.w;
    auto scheduler = self.serve<BatchScheduler>("scheduler", self.size());
    while (self.running()) {
      if (!state.in_round) state.warm_up = self.epoch() < o_.warmup_epochs.value_or(0);
      state.in_round = true;
      const bool warm_up = state.warm_up;
      const std::uint64_t b_i = warm_up ? b_warm_up : last ? last->b[i] : b_start;
      const std::uint64_t mega_batch = samples_per_merge(self.mega_batch_samples(), self.plan());
      std::uint64_t& u_i = state.updates;
      for (Grant grant; (grant = scheduler.call({b_i, mega_batch})).range.count > 0; ++u_i) {
        self.learn(state.replica, self.batches().at(grant.range), self.learning_rate(b_i));
      }

      const auto updates = self.comm().agree(
          u_i, [](std::span<const std::uint64_t> u) { return std::vector(u.begin(), u.end()); });
      const double norm_i = norm(std::sqrt(self.squared_norm(w_i)), w_i.size());
      const std::uint64_t merges = state.merges + (warm_up ? 0 : 1);
      const bool scales = !warm_up && merges % o_.scaling_every == 0;
      const auto agreed = self.comm().agree(norm_i, [&](std::span<const double> norms) {
        const std::vector<std::uint64_t> b = last ? last->b : std::vector(p, b_start);
        Merge merge{.batch_size = warm_up ? std::vector(p, b_warm_up) : b,
                    .updates = *updates,
                    .norm = {norms.begin(), norms.end()}};
        weigh(merge, o_, warm_up);
        const std::uint64_t learnt = merge.samples();
        auto next = scales ? scaling(merge) : b;
        return Agreed{.merge = std::move(merge), .b = std::move(next), .samples = learnt};
      });
      state.global.merge(self, w_i, agreed->merge.weight[i], o_.gamma);
      // Until here the loss of a worker leaves the round as it was.
      last = agreed;
      state.merges = merges;
      u_i = 0;
      state.in_round = false;
      record(self, last->merge);
      state.inflation.merged(self, last->merge);
      if (scales) state.overshoot.scaled(self, last->merge);
      state.samples += last->samples;
      self.evaluate_here(w_i, state.samples);
    }
  }

 private:
  struct State {
    Replica replica;
    GlobalModel global;
    std::uint64_t b_start;
    // The last merge, which all workers share, because it holds a number for each of them. It has
    // the b_i from the next mega-batch on, or from the warm-up's end on. Null: b_start for all.
    std::shared_ptr<const Agreed> agreed;
    InflationWarning inflation;
    OvershootWarning overshoot;
    std::uint64_t samples = 0;  // of all workers
    std::uint64_t merges = 0;   // since the warm-up
    std::uint64_t updates = 0;  // u_i, of the mega-batch
    bool in_round = false, warm_up = false;
    void fields(Archive& fields) {
      global.fields(fields, replica);
      std::vector<std::uint64_t> b = agreed ? agreed->b : std::vector<std::uint64_t>();
      fields.common("batch_sizes", b);
      if (!b.empty()) fields.to_ranks_now(b, b_start);
      if (!b.empty()) agreed = std::make_shared<const Agreed>(Agreed{.b = std::move(b)});
      fields.common("samples", samples);
      fields.common("merges", merges);
      fields.common("in_round", in_round);
      fields.common("warm_up", warm_up);
      fields.mid_round("updates", updates);
      fields("inflation", inflation);
      fields("overshoot", overshoot);
    }
  };

  // Regularity of a replica of n parameters with this ||w||_2.
  double norm(double length, std::size_t n) const {
    const auto size = static_cast<double>(n);
    return length / (o_.pert_norm == PertNorm::rms ? std::sqrt(size) : size);
  }

  std::uint64_t samples_per_merge(std::uint64_t samples, const Plan& plan) const {
    if (!o_.whole_rounds) return samples;
    const std::uint64_t round = static_cast<std::uint64_t>(plan.workers) * plan.batch_size;
    return whole_rounds(samples, round) * round;
  }

  AdaptiveOptions o_;
};

const bool adaptive_registered = register_algorithm<Adaptive>({
    .name = "adaptive",
    .title = "Adaptive SGD (adaptive batch)",
    .idea = "Each batch goes to the next idle worker. Once per mega-batch the replicas are merged, "
            "weighted by the number of updates that each made. Batch sizes are adapted until all "
            "workers make the same number of updates, so that no worker waits long.",
    .paper = "Adaptive SGD (Ma et al. 2021), section 3, algorithms 1 and 2",
    .cost = "two control messages per batch; one all_reduce of n elements per mega-batch",
    .result = "the merged model",
    .identities =
        "one worker = elastic with one worker; equal workers keep equal batches and follow elastic "
        "(with --whole-rounds if P does not divide a mega-batch)",
});

}  // namespace
}  // namespace hetsgd
