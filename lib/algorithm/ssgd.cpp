// ssgd: synchronous gradient aggregation. Every iteration the workers average their gradients of
// one global batch and make the same update; or, with central storage, a server makes it and sends
// the parameters back; or the workers' updates are combined by Adasum.
//
// Paper:      000 section 2.2, figure 2 (gradient aggregation) and section 2.3 (mirrored and
//             central storage); TensorFlow's mirrored strategy, Horovod.
//             001 (Adasum): equations 8 and 9, algorithm 1, sections 3.5 and 4, figure 2.
// Implements: mean    g = sum_i (b_i / b) g_i;  w <- w - lr g, or the update of --optimizer.
//             adasum  d_i = the update that worker i's own optimizer makes of g_i;
//                     w <- w + AS(d_1, ..., d_P); see adasum_step.hpp and collective/adasum.hpp.
// Symbols:    b --batch-size (P times it with --per-worker-batch full), b_i worker i's part,
//             mu --momentum, lambda --weight-decay, m --node-size.
// Cost:       mirrored: one all_reduce of the gradient (n numbers) per iteration;
//             central: n numbers from each worker to the server and n back, over the server's one
//             link; adasum: the bytes of the all_reduce, log2 P small sums, and two passes over
//             (P-1)/P n numbers for products and combinations.
// Events:     "orthogonality", see adasum_step.hpp.
// Deviations: with adasum the learning rate is that of what one optimizer sees (Common rule): lr
//             b_node/b_max for a node's part of a split batch, lr for full batches. The paper
//             leaves open how nodes and layers are assigned: consecutive ranks, consecutive layers.

#include <functional>

#include "algorithm/adasum_step.hpp"
#include "algorithm/algorithm.hpp"
#include "algorithm/server_start.hpp"
#include "core/error.hpp"

namespace hetsgd {
namespace {

enum class PerWorkerBatch { split, full };
enum class Storage { mirrored, central };
enum class Reduce { mean, adasum };

struct Push {
  double learning_rate;
};
struct Pull {};

// Central storage: waits for all gradients, adds them in rank order, updates, answers everybody.
class CentralStore final : public Service<Push, Pull> {
 public:
  explicit CentralStore(const ServerStart& start)
      : device_(make_cpu_device<float>(1)),
        w_(start.w),
        gradient_(static_cast<std::size_t>(start.workers)),
        optimizer_(start.make_optimizer(*device_)) {}

  void handle(int from, const Push& push, std::span<const float> gradient,
              Responder<Pull> reply) override {
    gradient_[static_cast<std::size_t>(from)].assign(gradient.begin(), gradient.end());
    waiting_.push_back(std::move(reply));
    if (waiting_.size() < gradient_.size()) return;
    std::vector<float>& sum = gradient_.front();
    for (std::size_t r = 1; r < gradient_.size(); ++r) {
      device_->axpby(sum.size(), 1.0F, gradient_[r].data(), 1.0F, sum.data());
    }
    optimizer_->update(*device_, push.learning_rate, sum, w_);
    for (auto& answer : waiting_) answer({}, w_, Traffic::parameters);
    waiting_.clear();
  }

 private:
  std::unique_ptr<Device> device_;
  std::vector<float> w_;
  std::vector<std::vector<float>> gradient_;  // by rank
  std::vector<Responder<Pull>> waiting_;
  std::unique_ptr<Optimizer> optimizer_;
};

class Ssgd final : public Algorithm {
 public:
  void declare(OptionSet& options) override {
    options.add_choice("per_worker_batch", per_worker_batch_,
                       {{"split", PerWorkerBatch::split}, {"full", PerWorkerBatch::full}},
                       "a worker's batch: b_max/P, so that the global batch is b_max, or b_max");
    options.add_choice("storage", storage_,
                       {{"mirrored", Storage::mirrored}, {"central", Storage::central}},
                       "where the parameters are updated: on every worker, or on a server");
    options.add_choice("reduce", reduce_, {{"mean", Reduce::mean}, {"adasum", Reduce::adasum}},
                       "how workers are combined: the mean of their gradients, or Adasum of the "
                       "updates that their optimizers make");
    adasum_.declare(options);
  }

  void check(const Plan& plan) const override {
    check_reduce(plan);
    if (per_worker_batch_ == PerWorkerBatch::full) return;
    if (plan.batch_size >= static_cast<std::uint64_t>(plan.workers)) return;
    throw with_hint(
        usage_error("--batch-size: found {}, expected at least one sample for each of the "
                    "{} workers",
                    plan.batch_size, plan.workers),
        "use a larger batch or --per-worker-batch full");
  }

  void worker(Worker& self) const override {
    const auto p = static_cast<std::uint64_t>(self.size());
    const std::uint64_t b =
        self.plan().batch_size * (per_worker_batch_ == PerWorkerBatch::full ? p : 1);
    const auto part = self.comm().block_of(self.rank(), b);
    const std::uint64_t b_i = part.end - part.begin;
    const double share = static_cast<double>(b_i) / static_cast<double>(b);

    Buffer w = self.initial_parameters();
    Gradient g = self.make_gradient();
    std::uint64_t seen = self.plan().batch_size;  // by one optimizer, for the learning rate
    std::function<void(double)> update = [&](double lr) {  // mirrored
      if (p > 1) self.scale(share, g.flat);
      if (p > 1) self.all_reduce(g);
      self.apply(g, lr, w);
    };
    if (storage_ == Storage::central) {
      update = [&, store = self.serve<CentralStore>("parameters", ServerStart::of(self, w))](
                   double lr) mutable {
        if (p > 1) self.scale(share, g.flat);
        // Push the gradient, pull the parameters.
        store.call({lr}, g.flat.span(), w.span());
        self.took_update();
      };
    }
    if (reduce_ == Reduce::adasum && p > 1) {
      const std::uint64_t b_node = node_batch(self, b);
      if (per_worker_batch_ == PerWorkerBatch::split) seen = b_node;
      update = [&, step = std::make_shared<AdasumStep>(
                       self, adasum_, static_cast<double>(b_i) / static_cast<double>(b_node))](
                   double lr) { (*step)(self, g, lr, w); };
    }

    const bool shared = self.plan().partition == Partition::shared;
    for (std::uint64_t begin = 0; self.running(); begin += b) {
      const double lr = self.learning_rate(seen);
      self.gradient(shared ? self.batch_at({begin + part.begin, b_i}) : self.next_batch(b_i), w, g);
      update(lr);
      self.evaluate_here(w, begin + b);
    }
  }

 private:
  void check_reduce(const Plan& plan) const {
    if (reduce_ == Reduce::mean) {
      if (adasum_.state == AdasumOptions::State::replicated) return;
      throw with_hint(usage_error("--optimizer-state: found partitioned with --reduce mean"),
                      "only Adasum's step partitions the state: add --reduce adasum");
    }
    if (storage_ == Storage::central) {
      throw with_hint(
          usage_error("--storage: found central with --reduce adasum, which combines the updates "
                      "of the workers' own optimizers; the server has only one"),
          "use --storage mirrored");
    }
    adasum_.check(plan);
  }

  // Samples of a global batch of b that this worker's node takes.
  std::uint64_t node_batch(Worker& self, std::uint64_t b) const {
    const int m = adasum_.node_size, first = self.rank() / m * m;
    return self.comm().block_of(first + m - 1, b).end - self.comm().block_of(first, b).begin;
  }

  PerWorkerBatch per_worker_batch_ = PerWorkerBatch::split;
  Storage storage_ = Storage::mirrored;
  Reduce reduce_ = Reduce::mean;
  AdasumOptions adasum_;
};

const bool ssgd_registered = register_algorithm<Ssgd>({
    .name = "ssgd",
    .title = "Synchronous SGD",
    .idea =
        "The workers average the gradients of one global batch every iteration. All make the same "
        "update, so there is one model, and the slowest worker sets the pace.",
    .paper = "000 sections 2.2 and 2.3 (gradient aggregation); 001 (Adasum)",
    .cost = "mirrored: one all_reduce of n numbers per iteration; central: n numbers to the server "
            "and n back per worker; adasum: as mirrored, and log2 P sums of products",
    .result = "the common model",
    .identities = "one worker = sgd; P workers = sgd on the global batch, up to rounding; adasum "
                  "of equal gradients = that gradient, of orthogonal ones = their sum",
});

}  // namespace
}  // namespace hetsgd
