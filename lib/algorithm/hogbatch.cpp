// hogbatch: one model in the host's memory, on which CPUs step on small batches without a lock, and
// GPUs pull it, step on a large batch and add what has moved. A coordinator deals batches of a size
// per kind of device, and moves the sizes until both kinds make as many updates.
//
// Paper:      Ma, Rusu, "Heterogeneous CPU+GPU stochastic gradient descent algorithms", 2020 (arXiv
//             2004.08771): CPU+GPU Hogbatch (--adapt fixed), Adaptive Hogbatch; Adaptive SGD,
//             section 2.3.
// Implements: CPU: w <- w - lr_E g(w), in place. GPU: w_i <- w; w_i <- w_i - lr_E g(w_i);
//             w <- w + (w_i - w as it was pulled). When worker i of kind E asks the coordinator:
//               u_E <- u_E + beta (cpu) or + 1 (gpu)                               (1)
//               u_E < the other kind's:  b_E <- max(b_E / alpha, min_E)            (2)
//               u_E > the other kind's:  b_E <- min(alpha b_E, max_E)              (3)
//             and gets the next b_E samples of the pool.
// Symbols:    w, w_i the model and a GPU's replica; b_E, lr_E, u_E batch size, learning rate and
//             updates of a kind; alpha --alpha; beta --beta, the share of CPU updates that counts;
//             min_E, max_E --cpu-batch-min, --cpu-batch-max, --gpu-batch-min, --batch-size.
// Cost:       two control messages per batch; a GPU's step n elements over its link and n back.
// Records:    histogram "staleness": updates by others between a step's reading, or a pull, and its
//             writing; event "batch_size" {rank, kind, batch_size, cpu_updates, gpu_updates}, by
//             the worker at whose request b_E changed.
// Deviations: of the source only the abstract and the program were read, which has fixed batches:
//             alpha, the bounds, and that b_E changes at most once in as many requests as kind E
//             has workers are ours. Sizes grow rounded up and shrink rounded down. The program
//             copies w_i over w (--gpu-update overwrite) and loses what CPUs wrote meanwhile.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "algorithm/plan.hpp"
#include "algorithm/shared_model.hpp"
#include "core/error.hpp"
#include "core/options.hpp"

namespace hetsgd {

// The options of hogbatch, and the sizes of the batches that follow from them.
//
// A kind of device starts with the size at which its updates are the most frequent (CPUs) or its
// work the most efficient (GPUs):
//
//   cpu   start = min 1, max 64          gpu   min b_max / 2, start = max b_max
//
// Half a batch takes a GPU no longer than a whole one, so with this bound it computes at least half
// as many samples per second as with its largest batches. A smaller bound lets the batch sink until
// launches are most of a step.

// The kind of a worker's device: it computes in the host's memory, or in a memory of its own.
enum DeviceKind : std::uint32_t { kCpu, kGpu, kDeviceKinds };

// The rules of a kind's batches, constant throughout a run.
struct BatchRule {
  std::uint64_t workers = 0, start = 1, min = 1, max = 1;
  double counts = 1;  // weight of each of its updates
};
struct BatchRules {
  std::array<BatchRule, kDeviceKinds> of;
  double alpha = 2;
  bool adapts = true;
};

struct HogbatchOptions {
  enum class Adapt { updates, fixed };
  enum class GpuUpdate { add, overwrite };

  void declare(OptionSet& set);
  // Throws Error(usage) for contradictory bounds, or for a partition without a common pool.
  void check(const Plan& plan) const;
  // The rules for this many workers of each kind.
  BatchRules rules(const Plan& plan, const std::array<std::uint64_t, kDeviceKinds>& workers) const;

  Adapt adapt = Adapt::updates;
  double alpha = 2;
  double beta = 1;
  GpuUpdate gpu_update = GpuUpdate::add;
  std::uint64_t cpu_batch_min = 1;
  std::optional<std::uint64_t> cpu_batch_max;  // none: 64, or b_max where that is less
  std::optional<std::uint64_t> gpu_batch_min;  // none: b_max / 2
};

void HogbatchOptions::declare(OptionSet& set) {
  set.add_choice("adapt", adapt, {{"updates", Adapt::updates}, {"fixed", Adapt::fixed}},
                 "How batch sizes change. updates adapts them until CPUs and GPUs make equally "
                 "many updates, and fixed keeps the first ones.");
  set.add("alpha", alpha, "Factor by which a batch size grows or shrinks at a change.")
      .symbol("alpha")
      .range(1, 1024)
      .above(1);
  set.add("beta", beta, "Weight of a CPU's update when --adapt updates compares CPUs with GPUs.")
      .symbol("beta")
      .range(0, 1)
      .above(0);
  set.add_choice("gpu_update", gpu_update,
                 {{"add", GpuUpdate::add}, {"overwrite", GpuUpdate::overwrite}},
                 "How a GPU updates the model. add adds its change, and overwrite replaces the "
                 "model by its replica as the authors' program does.");
  set.add("cpu_batch_min", cpu_batch_min, "Smallest mini-batch of a CPU, with which it starts.")
      .unit("samples")
      .at_least(1);
  set.add("cpu_batch_max", cpu_batch_max,
          "Largest mini-batch of a CPU. auto: 64, but at most --batch-size.")
      .unit("samples")
      .at_least(1);
  set.add("gpu_batch_min", gpu_batch_min,
          "Smallest mini-batch of a GPU, which starts with its largest one, --batch-size. auto: "
          "half of --batch-size, with which a GPU makes at least half as many samples per second.")
      .unit("samples")
      .at_least(1);
}

void HogbatchOptions::check(const Plan& plan) const {
  if (plan.partition != Partition::shared) {
    refuse("--partition", "shards", "shared: hogbatch deals batches from one pool");
  }
  const BatchRules bounds = rules(plan, {});
  check_at_most("--cpu-batch-max", bounds.of[kCpu].max, "--batch-size", plan.batch_size);
  check_at_most("--cpu-batch-min", bounds.of[kCpu].min, "--cpu-batch-max", bounds.of[kCpu].max);
  check_at_most("--gpu-batch-min", bounds.of[kGpu].min, "--batch-size", plan.batch_size);
}

BatchRules HogbatchOptions::rules(const Plan& plan,
                                  const std::array<std::uint64_t, kDeviceKinds>& workers) const {
  constexpr std::uint64_t kCpuMax = 64, kGpuRange = 2;
  const std::uint64_t b_max = plan.batch_size;
  BatchRules rules{.of = {}, .alpha = alpha, .adapts = adapt == Adapt::updates};
  rules.of[kCpu] = {.workers = workers[kCpu],
                    .start = cpu_batch_min,
                    .min = cpu_batch_min,
                    .max = cpu_batch_max.value_or(std::min(kCpuMax, b_max)),
                    .counts = beta};
  rules.of[kGpu] = {.workers = workers[kGpu],
                    .start = b_max,
                    .min = gpu_batch_min.value_or(std::max<std::uint64_t>(1, b_max / kGpuRange)),
                    .max = b_max,
                    .counts = 1};
  return rules;
}

namespace {

using PerKind = std::array<std::uint64_t, kDeviceKinds>;

struct AskDeal {
  DeviceKind kind;
};
struct Deal {
  SampleRange range;
  bool resized;  // b_E, at this request
  std::array<double, kDeviceKinds> updates;
};

class Coordinator final : public Service<AskDeal, Deal> {
 public:
  explicit Coordinator(const BatchRules& rules)
      : rules_(rules), b_{rules.of[kCpu].start, rules.of[kGpu].start} {}

  void handle(int, const AskDeal& ask, std::span<const float>, Responder<Deal> reply) override {
    const std::size_t e = ask.kind;
    u_[e] += rules_.of[e].counts;  // (1)
    const std::uint64_t b = ++asked_[e] < rules_.of[e].workers ? b_[e] : next_size(e, 1 - e);
    const bool resized = b != std::exchange(b_[e], b);
    if (resized) asked_[e] = 0;
    reply({.range = {position_, b}, .resized = resized, .updates = u_});
    position_ += b;
  }
  void fields(Archive& fields) override {
    fields("b", b_);
    fields("asked", asked_);
    fields("u", u_);
    fields("position", position_);
  }

 private:
  std::uint64_t next_size(std::size_t e, std::size_t other) const {
    const BatchRule& rule = rules_.of[e];
    const auto b = static_cast<double>(b_[e]);
    const auto whole = [](double size) { return static_cast<std::uint64_t>(size); };
    if (!rules_.adapts || rules_.of[other].workers == 0 || u_[e] == u_[other]) return b_[e];
    return u_[e] < u_[other] ? std::max(whole(std::floor(b / rules_.alpha)), rule.min)  // (2)
                             : std::min(whole(std::ceil(rules_.alpha * b)), rule.max);  // (3)
  }

  const BatchRules rules_;
  PerKind b_, asked_{};  // asked_: since b_E changed
  std::array<double, kDeviceKinds> u_{};
  std::uint64_t position_ = 0;  // in the pool
};

class Hogbatch final : public Algorithm {
 public:
  void declare(OptionSet& set) override { o_.declare(set); }
  void check(const Plan& plan) const override { o_.check(plan); }
  void check_model(const Plan&, const Model& model) const override { check_shareable(model); }

  void worker(Worker& self) const override {
    const DeviceKind kind = self.in_host_memory() ? kCpu : kGpu;
    const auto workers = self.comm().agree(kind, [](std::span<const DeviceKind> all) {
      return PerKind{static_cast<std::uint64_t>(std::ranges::count(all, kCpu)),
                     static_cast<std::uint64_t>(std::ranges::count(all, kGpu))};
    });
    SharedWorker sharing(self);
    const auto model = sharing.join();
    auto coordinator = self.serve<Coordinator>("coordinator", o_.rules(self.plan(), *workers));
    const bool adds = o_.gpu_update == HogbatchOptions::GpuUpdate::add;
    PulledReplica mine;
    if (kind == kGpu) mine = sharing.pulled_replica();
    self.stateless();
    while (self.running()) {
      const Deal deal = coordinator.call({kind});
      if (deal.resized) record(self, kind, deal);
      const Batch& batch = self.batches().at(deal.range);
      const double lr = self.learning_rate(deal.range.count);
      if (kind == kCpu) {
        sharing.step(batch, lr, *model);
      } else {
        sharing.pull(*model, mine);
        self.learn(mine.replica, batch, lr);
        if (adds) sharing.add_move(mine, *model);
        if (!adds) sharing.overwrite(mine, *model);
      }
      self.evaluate_here([&]() -> std::span<const float> { return model->w(); });
    }
  }

  // The shared model; a GPU's replica, its pulled copy and the result that it returns.
  double model_vectors(const Plan&) const override { return 4; }

 private:
  static void record(Worker& self, DeviceKind kind, const Deal& deal) {
    self.record({{"type", "batch_size"},
                 {"rank", self.rank()},
                 {"kind", kind == kCpu ? "cpu" : "gpu"},
                 {"batch_size", deal.range.count},
                 {"cpu_updates", deal.updates[kCpu]},
                 {"gpu_updates", deal.updates[kGpu]}});
  }

  HogbatchOptions o_;
};

const bool hogbatch_registered = register_algorithm<Hogbatch>({
    .name = "hogbatch",
    .title = "Adaptive Hogbatch",
    .idea = "CPUs step on small batches, on one model in the host's memory and without a lock. "
            "GPUs pull it, step on a large batch and add their change. Batch sizes are adapted "
            "until both kinds make equally many updates.",
    .paper = "Ma, Rusu 2020; Adaptive SGD, section 2.3",
    .cost = "two control messages per batch; per step of a GPU n elements over its link and back",
    .result = "the shared model",
    .identities = "one CPU worker with --adapt fixed = hogwild; one GPU worker = sgd, "
                  "up to rounding",
    .synchronous = false,
    .plain_sgd_only = "moves the shared parameters by fused steps, which have no other state",
    .one_process_only = "keeps one model in the memory that its workers share",
    .replicated_tables_only = "keeps its tables in the model that its workers share",
    .rate_over_workers = true,
});

}  // namespace

}  // namespace hetsgd
