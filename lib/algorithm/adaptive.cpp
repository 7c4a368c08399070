// adaptive: Adaptive SGD (adaptive batch). A scheduler hands the next batch to whoever is idle;
// once per mega-batch the replicas are merged with weights from their updates, and batch sizes move
// so that all make the same number of updates.
//
// Paper:      000 section 3, algorithm 1 (batch size scaling) and algorithm 2 (normalized model
//             merging).
// Implements: algorithms 1 and 2 in full; see the functions of these names.
// Symbols:    b_i, lr_i, u_i batch size, learning rate, updates since the last merge of worker i;
//             b_max --batch-size, b_min --batch-min, beta --beta, delta --delta,
//             pert_thr --pert-threshold, gamma --gamma.
// Cost:       two control messages per batch; one all_reduce of n elements and two all_gathers of
//             one number per mega-batch.
// Deviations: algorithm 1 compares P u_i with sum(u) exactly and rounds the new b_i half up; a b_i
//             out of bounds stays as it was (--bounds clamp moves it to the bound). With all u_i
//             equal there is no most-updated replica, so no perturbation. Ties of argmax and
//             argmin: lowest rank. --pert-norm rms divides the norm by sqrt(|w|), the reading under
//             which thresholds of 0.05 and 0.10 differ.
// Warns:      once, when the merges alone have doubled the model (parts/inflation.hpp). The weights
//             of a perturbed merge add up to 1 + delta (u_max - u_min) / sum(u), and gamma carries
//             each such stretch on; while the norms stay below pert_thr nothing ends it. From the factor
//             2 on more of the model comes from merging than from learning. Runs whose u become
//             equal, or differ by one for some tens of merges, stay below it.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/inflation.hpp"
#include "algorithm/parts/merge.hpp"
#include "core/error.hpp"

namespace hetsgd {
namespace {

enum class Bounds { skip, clamp };
enum class PertNorm { l2_over_n, rms };

struct AskBatch {
  std::uint64_t batch_size;  // b_i
  std::uint64_t mega_batch;  // samples until the merge
};
struct Grant {
  SampleRange range;  // empty: the mega-batch is over, merge now
};

// Dynamic scheduling: batches go to the first idle worker while dispatched < mega_batch; the merge
// begins when everybody has come back.
class Scheduler final : public Service<AskBatch, Grant> {
 public:
  explicit Scheduler(int workers) : workers_(static_cast<std::size_t>(workers)) {}

  void handle(int, const AskBatch& ask, std::span<const float>, Responder<Grant> reply) override {
    if (dispatched_ < ask.mega_batch) {
      reply({.range = {position_, ask.batch_size}});
      position_ += ask.batch_size;
      dispatched_ += ask.batch_size;
      return;
    }
    idle_.push_back(std::move(reply));
    if (idle_.size() < workers_) return;
    for (auto& answer : idle_) answer({});
    idle_.clear();
    dispatched_ = 0;
  }

 private:
  std::size_t workers_;
  std::uint64_t position_ = 0;    // in the pool of samples
  std::uint64_t dispatched_ = 0;  // in this mega-batch
  std::vector<Responder<Grant>> idle_;
};

struct AdaptiveOptions {
  std::optional<std::uint64_t> batch_min;  // b_min; none: b_max / 8
  std::optional<double> beta;              // none: b_min / 2
  double delta = 0.1;
  double pert_threshold = 0.1;
  double gamma = 0.9;
  Bounds bounds = Bounds::skip;
  PertNorm pert_norm = PertNorm::l2_over_n;
};

// Algorithm 1. Returns the new b_i of one worker; lr_i follows by linear scaling.
std::uint64_t scaled_batch_size(std::uint64_t b, std::uint64_t u, std::uint64_t sum_u,
                                std::uint64_t p, double b_min, double b_max, double beta,
                                Bounds bounds) {
  if (p * u == sum_u) return b;  // u_i == mu, compared exactly
  const double mu = static_cast<double>(sum_u) / static_cast<double>(p);        // line 1
  double next = static_cast<double>(b) + beta * (static_cast<double>(u) - mu);  // lines 5, 8
  const bool out = p * u > sum_u ? next > b_max : next < b_min;                 // lines 3, 6
  if (out && bounds == Bounds::skip) return b;
  if (out) next = std::clamp(next, b_min, b_max);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::floor(next + 0.5)));
}

// A merge and what follows from it. All workers know it alike.
struct Agreed {
  Merge merge;
  std::vector<std::uint64_t> b;  // b_i from now on
  std::uint64_t samples = 0;     // of the finished mega-batch, of all workers
};

// Algorithm 2, lines 2 to 10: weights and perturbation from b_i, u_i and the norms.
void weigh(Merge& merge, const AdaptiveOptions& o) {
  const std::size_t p = merge.updates.size();
  const auto& u = merge.updates;
  const bool equal = std::ranges::all_of(u, [&](std::uint64_t x) { return x == u.front(); });
  const auto& share = equal ? merge.batch_size : u;
  const auto sum =
      static_cast<double>(std::accumulate(share.begin(), share.end(), std::uint64_t{0}));
  for (std::size_t i = 0; i < p; ++i) merge.weight.push_back(static_cast<double>(share[i]) / sum);
  const bool regular =
      std::ranges::all_of(merge.norm, [&](double x) { return x < o.pert_threshold; });
  if (equal || !regular) return;
  merge.weight[static_cast<std::size_t>(std::ranges::max_element(u) - u.begin())] *=
      1 + o.delta;  // r
  merge.weight[static_cast<std::size_t>(std::ranges::min_element(u) - u.begin())] *=
      1 - o.delta;  // s
  merge.perturbed = true;
}

class Adaptive final : public Algorithm {
 public:
  void declare(OptionSet& options) override {
    options.add("batch_min", o_.batch_min, "smallest batch of a worker; auto: b_max / 8")
        .unit("samples")
        .symbol("b_min")
        .at_least(1)
        .or_zero();
    options
        .add("beta", o_.beta,
             "change of the batch size per update off the average; auto: b_min / 2")
        .unit("samples")
        .symbol("beta")
        .above(0)
        .or_zero();
    options.add("delta", o_.delta, "perturbation of the merge weights").symbol("delta").range(0, 1);
    options
        .add("pert_threshold", o_.pert_threshold,
             "perturb only while all replicas' norms are below this")
        .symbol("pert_thr")
        .at_least(0);
    options.add("gamma", o_.gamma, "momentum of the global model").symbol("gamma").range(0, 1);
    options.add_choice("bounds", o_.bounds, {{"skip", Bounds::skip}, {"clamp", Bounds::clamp}},
                       "a new batch size out of bounds: keep the old one, or take the bound");
    options.add_choice(
        "pert_norm", o_.pert_norm, {{"l2_over_n", PertNorm::l2_over_n}, {"rms", PertNorm::rms}},
        "regularity of a replica: ||w||_2 / n (the paper's text) or ||w||_2 / sqrt(n)");
  }

  void check(const Plan& plan) const override {
    if (plan.partition != Partition::shared) {
      throw with_hint(usage_error("--partition: adaptive dispatches batches from one pool"),
                      "use --partition shared");
    }
    if (o_.batch_min.value_or(0) > plan.batch_size) {
      throw usage_error("--batch-min: found {}, expected at most --batch-size {}", *o_.batch_min,
                        plan.batch_size);
    }
  }

  void worker(Worker& self) const override {
    const auto p = static_cast<std::size_t>(self.size());
    const auto b_max = static_cast<double>(self.plan().batch_size);
    const double b_min = o_.batch_min ? static_cast<double>(*o_.batch_min) : b_max / 8;
    const double beta = o_.beta.value_or(b_min / 2);

    Replica replica = self.replica();
    Buffer& w_i = replica.w;
    GlobalModel global(self);
    auto scheduler = self.serve<Scheduler>("scheduler", self.size());
    std::uint64_t b_i = self.plan().batch_size;
    std::shared_ptr<const Agreed> agreed;  // at the last merge

    InflationWarning inflation(o_.gamma);
    std::uint64_t samples = 0;  // of all workers
    while (self.running()) {
      const std::uint64_t mega_batch = self.mega_batch_samples();
      std::uint64_t u_i = 0;
      for (Grant grant; (grant = scheduler.call({b_i, mega_batch})).range.count > 0; ++u_i) {
        self.learn(replica, self.batches().at(grant.range), self.learning_rate(b_i));
      }

      const auto updates = self.comm().agree(
          u_i, [](std::span<const std::uint64_t> u) { return std::vector(u.begin(), u.end()); });
      const double norm_i = norm(self, w_i);
      agreed = self.comm().agree(norm_i, [&](std::span<const double> norms) {
        Merge merge{.batch_size = agreed ? agreed->b : std::vector(p, self.plan().batch_size),
                    .updates = *updates,
                    .norm = {norms.begin(), norms.end()}};
        weigh(merge, o_);
        return scaled(std::move(merge), b_min, b_max, beta);
      });
      const auto i = static_cast<std::size_t>(self.rank());
      global.merge(self, w_i, agreed->merge.weight[i], o_.gamma);
      record(self, agreed->merge);
      inflation.merged(self, agreed->merge);
      b_i = agreed->b[i];
      samples += agreed->samples;
      self.evaluate_here(w_i, samples);
    }
  }

 private:
  double norm(Worker& self, const Buffer& w) const {
    const auto n = static_cast<double>(w.size());
    return std::sqrt(self.squared_norm(w)) / (o_.pert_norm == PertNorm::rms ? std::sqrt(n) : n);
  }

  // Algorithm 1 for all workers.
  Agreed scaled(Merge merge, double b_min, double b_max, double beta) const {
    const auto &b = merge.batch_size, &u = merge.updates;
    const auto sum_u = std::accumulate(u.begin(), u.end(), std::uint64_t{0});
    Agreed agreed;
    for (std::size_t i = 0; i < b.size(); ++i) {
      agreed.samples += u[i] * b[i];
      agreed.b.push_back(
          scaled_batch_size(b[i], u[i], sum_u, b.size(), b_min, b_max, beta, o_.bounds));
    }
    agreed.merge = std::move(merge);
    return agreed;
  }

  AdaptiveOptions o_;
};

const bool adaptive_registered = register_algorithm<Adaptive>({
    .name = "adaptive",
    .title = "Adaptive SGD (adaptive batch)",
    .idea =
        "Batches go to whoever is idle, and once per mega-batch the replicas are merged, weighted "
        "by their updates. "
        "Batch sizes move until all workers make the same number of updates, so nobody waits long.",
    .paper = "000 section 3, algorithms 1 and 2",
    .cost = "two control messages per batch; one all_reduce of n elements per mega-batch",
    .result = "the merged model",
    .identities = "one worker = elastic with one worker; equal workers keep equal batches",
});

}  // namespace
}  // namespace hetsgd
