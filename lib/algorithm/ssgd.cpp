// ssgd: synchronous gradient aggregation. Every iteration the workers average their gradients of
// one global batch and make the same update; or, with central storage, a server makes it and sends
// the parameters back.
//
// Paper:      000 section 2.2, figure 2 (gradient aggregation) and section 2.3 (mirrored and
// central storage);
//             TensorFlow's mirrored strategy, Horovod.
// Implements: g = sum_i (b_i / b) g_i;  w <- w - lr g, or the update of --optimizer.
// Symbols:    b --batch-size (P times it with --per-worker-batch full), b_i worker i's part, mu
// --momentum,
//             lambda --weight-decay.
// Cost:       mirrored: one all_reduce of the gradient (n numbers) per iteration;
//             central: n numbers from each worker to the server and n back, over the server's one
//             link.
// Deviations: none.

#include <functional>

#include "algorithm/algorithm.hpp"
#include "core/error.hpp"

namespace hetsgd {
namespace {

enum class PerWorkerBatch { split, full };
enum class Storage { mirrored, central };

using OptimizerMaker = std::function<std::unique_ptr<Optimizer>(Device&)>;

struct Push {
  double learning_rate;
};
struct Pull {};

// Central storage: waits for all gradients, adds them in rank order, updates, answers everybody.
class CentralStore final : public Service<Push, Pull> {
 public:
  CentralStore(int workers, std::span<const float> w, const OptimizerMaker& make)
      : device_(make_cpu_device<float>(1)),
        w_(w.begin(), w.end()),
        gradient_(static_cast<std::size_t>(workers)),
        optimizer_(make(*device_)) {}

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
  }

  void check(const Plan& plan) const override {
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

    Buffer w = self.initial_parameters();
    Gradient g = self.make_gradient();
    std::function<void(double)> update = [&](double lr) {  // mirrored
      if (p > 1) self.all_reduce(g);
      self.apply(g, lr, w);
    };
    if (storage_ == Storage::central) {
      const auto make = [&](Device& device) { return self.make_optimizer(device); };
      update = [&, store = self.serve<CentralStore>("parameters", self.size(), w.span(),
                                                    OptimizerMaker(make))](double lr) mutable {
        store.call({lr}, g.flat.span(), w.span());  // push the gradient, pull the parameters
        self.took_update();
      };
    }

    const bool shared = self.plan().partition == Partition::shared;
    for (std::uint64_t begin = 0; self.running(); begin += b) {
      self.gradient(shared ? self.batch_at({begin + part.begin, b_i}) : self.next_batch(b_i), w, g);
      if (p > 1) self.scale(static_cast<double>(b_i) / static_cast<double>(b), g.flat);
      update(self.learning_rate(self.plan().batch_size));
      self.evaluate_here(w);
    }
  }

 private:
  PerWorkerBatch per_worker_batch_ = PerWorkerBatch::split;
  Storage storage_ = Storage::mirrored;
};

const bool registered = register_algorithm<Ssgd>({
    .name = "ssgd",
    .title = "Synchronous SGD",
    .idea =
        "The workers average the gradients of one global batch every iteration. All make the same "
        "update, so there is one model, and the slowest worker sets the pace.",
    .paper = "000 sections 2.2 and 2.3 (gradient aggregation)",
    .cost = "mirrored: one all_reduce of n numbers per iteration; central: n numbers to the server "
            "and n "
            "back per worker",
    .result = "the common model",
    .identities = "one worker = sgd; P workers = sgd on the global batch, up to rounding",
});

}  // namespace
}  // namespace hetsgd
