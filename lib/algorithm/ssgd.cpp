// ssgd: synchronous gradient aggregation. Every iteration the workers average their gradients of
// one global batch and make the same update; or, with central storage, a server makes it and sends
// the parameters back; or the workers' updates are combined by Adasum.
//
// Paper:      Adaptive SGD (Ma et al. 2021), section 2.2, figure 2 (gradient aggregation) and
//             section 2.3 (mirrored and central storage); TensorFlow's mirrored strategy, Horovod.
//             Adasum (Maleki et al. 2021): adasum.cpp.
//             --overlap: OverlappedSum, below.
// Implements: mean    g = sum_i (b_i / b) g_i;  w <- w - lr g, or the update of --optimizer. Where
//                     rows of tokens differ in length, n_i / n stands for b_i / b (MeanGradient).
//             adasum  d_i = the update that worker i's own optimizer makes of g_i;
//                     w <- w + AS(d_1, ..., d_P).
// Symbols:    b P times --batch-size (once with --per-worker-batch split), b_i worker i's part, n
//             and n_i the losses in them, mu --momentum, lambda --weight-decay.
// Cost:       mirrored: one all_reduce of the gradient (n elements) per iteration;
//             central: n elements from each worker to the server and n back, over the server's one
//             link; adasum: see adasum.cpp. With --overlap as many all_reduces as buckets, which
//             the backward pass of the layers below hides as far as it lasts.
// Records:    adasum: event "orthogonality", see adasum.hpp.
// Deviations: each worker has a batch of its own, as with Horovod in the papers on Adasum and RNA.
//             TensorFlow in the paper on Adaptive SGD splits one batch over the workers, which is
//             --per-worker-batch split.
//             --overlap is not the default, though Horovod overlaps: it changes no number but
//             times. The delays that a straggler scenario adds to an iteration come before its
//             first bucket is sent, so that no communication hides behind them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithm/adasum.hpp"
#include "algorithm/algorithm.hpp"
#include "algorithm/parts/global_batch.hpp"
#include "algorithm/parts/parameter_server.hpp"
#include "algorithm/worker.hpp"
#include "core/error.hpp"

namespace hetsgd {

// The mean of a global batch's gradient, made of the workers' g_i, each a mean over n_i losses.
//
//   batches of equally many losses    sum_i (b_i / b) g_i
//   others                            sum_i n_i g_i / sum_i n_i, whose divisor travels as one more
//                                     element behind the gradient
//
// Belongs to one worker; its calls are charged to the worker's device.
class MeanGradient {
 public:
  // share: b_i / b.
  MeanGradient(Worker& self, double share) : share_(share) {
    const bool counts = self.size() > 1 && !self.plan().equal_losses;
    if (counts) sum_ = Buffer(self.device(), self.model().parameters() + 1);
  }

  // Weighs elements `e` of this worker's gradient by `batch`, and puts n_i behind the last one: its
  // part of the sum over the workers.
  std::span<float> addend(Worker& self, Replica& replica, const Batch& batch, Extent e) {
    const std::span<float> g = replica.gradient.flat.span().subspan(e.begin, e.size());
    if (sum_.size() == 0) {
      if (self.size() > 1) self.scale(share_, g);
      return g;
    }
    const auto n_i = static_cast<float>(self.model().losses(batch));
    const std::size_t all = self.model().parameters();
    const std::span<float> to = sum_.span().subspan(e.begin, e.size() + (e.end == all ? 1 : 0));
    self.compute_vectors(2.0 * static_cast<double>(e.size()) / static_cast<double>(all), [&] {
      if (to.size() > g.size()) self.device().fill(1, n_i, to.data() + g.size());
      self.device().axpby(g.size(), n_i, g.data(), 0.0F, to.data());
    });
    return to;
  }

  // Sums the addends of whole gradients.
  void all_reduce(Worker& self, Replica& replica) {
    if (sum_.size() == 0) return self.all_reduce_gradient(replica);
    self.all_reduce(sum_, Traffic::gradients);
  }

  // The update of the replica by the sum of all addends.
  void apply(Worker& self, Replica& replica, double learning_rate) {
    if (sum_.size() == 0) {
      replica.gradient_is_dense = self.size() > 1;
      return self.apply(replica, learning_rate);
    }
    const std::span<float> g = sum_.span().first(sum_.size() - 1);
    float n = 0;
    self.device().download(&n, g.data() + g.size(), sizeof n);
    self.scale(1 / n, g);
    self.apply(replica, g, learning_rate);
  }

 private:
  double share_;
  Buffer sum_;  // [elements + 1]; empty: the gradients are summed where they are
};

// The sum of the workers' gradients behind the backward pass, as Horovod and PyTorch's
// DistributedDataParallel make it.
//
// The backward pass completes the gradient in parts, the output layer's first. Consecutive parts
// are fused into buckets of at most bucket_bytes bytes. A larger part is a bucket by itself, since
// none is cut. As soon as a bucket is complete its all_reduce starts, and runs while the parts
// below are computed. The all_reduces are made one after the other.
//
//   compute   | forward, bucket 0 | bucket 1 | bucket 2 |            | update |
//   network                       |==== bucket 0 ====|== 1 ==|== 2 ==|
//
// Each element is the sum over the ranks in rank order, and so has the bits of one all_reduce of
// the whole gradient. (NCCL and the tree add in another order, which may depend on the length.)
//
// Source: Sergeev, Del Balso, Horovod, 2018 (tensor fusion: 64 MB); Li et al., PyTorch Distributed,
// VLDB 2020, section 3.2.3.

// Belongs to one worker of several. It has the same buckets on all workers, and its calls are
// collective.
class OverlappedSum {
 public:
  // bucket_bytes: charged bytes, which under --charge are those of the full-size model.
  OverlappedSum(Worker& self, std::uint64_t bucket_bytes) {
    const Model& model = self.model();
    const auto most = static_cast<double>(bucket_bytes);
    for (std::size_t part = 0; part < model.gradient_parts(); ++part) {
      const Extent e = model.gradient_part(part);
      if (!elements_.empty()) {
        Extent& last = elements_.back();
        const bool fits = self.costs().charged_bytes(last.size() + e.size()) <= most;
        if (fits && (e.end == last.begin || e.begin == last.end)) {
          last = {std::min(last.begin, e.begin), std::max(last.end, e.end)};
          parts_.back().end = part + 1;
          continue;
        }
      }
      elements_.push_back(e);
      parts_.push_back({part, part + 1});
    }
  }

  // One iteration up to the sum of the workers' addends.
  void operator()(Worker& self, Replica& replica, const Batch& batch, MeanGradient& mean) {
    sums_.clear();
    self.gradient_in_pieces(replica, batch, parts_, [&](std::size_t i) {
      const std::span<float> bucket = mean.addend(self, replica, batch, elements_[i]);
      sums_.push_back(self.comm().start(all_reduce(bucket, ReduceOp::sum, Traffic::gradients)));
    });
    for (Pending& sum : sums_) sum.wait();
  }

 private:
  std::vector<Extent> parts_, elements_;  // by bucket
  std::vector<Pending> sums_;             // destroyed before the replica whose memory they use
};

namespace {

enum class Storage { mirrored, central };
enum class Reduce { mean, adasum };

struct PushGradient {
  double learning_rate;
};
struct PullParameters {};

// Central storage: waits for all addends of MeanGradient, adds them in rank order, updates, answers
// all.
class CentralStore final : public Service<PushGradient, PullParameters> {
 public:
  explicit CentralStore(const ServerStart& start)
      : device_(make_cpu_device<float>(1)),
        w_(start.w),
        gradient_(static_cast<std::size_t>(start.workers)),
        optimizer_(start.make_optimizer(*device_)) {}

  void handle(int from, const PushGradient& push, std::span<const float> gradient,
              Responder<PullParameters> reply) override {
    gradient_[static_cast<std::size_t>(from)].assign(gradient.begin(), gradient.end());
    waiting_.push_back(std::move(reply));
    if (waiting_.size() < gradient_.size()) return;
    std::vector<float>& sum = gradient_.front();
    for (std::size_t r = 1; r < gradient_.size(); ++r) {
      device_->axpby(sum.size(), 1.0F, gradient_[r].data(), 1.0F, sum.data());
    }
    const std::size_t n = w_.size();
    if (sum.size() > n) device_->axpby(n, 1 / sum[n], sum.data(), 0.0F, sum.data());
    optimizer_->update(*device_, push.learning_rate, std::span(sum).first(n), w_);
    for (auto& answer : waiting_) answer({}, w_, Traffic::parameters);
    waiting_.clear();
  }
  void fields(Archive& fields) override {
    fields("w", w_);
    fields("optimizer", *optimizer_);
  }

 private:
  std::unique_ptr<Device> device_;
  std::vector<float> w_;
  std::vector<std::vector<float>> gradient_;  // by rank
  std::vector<Responder<PullParameters>> waiting_;
  std::unique_ptr<Optimizer> optimizer_;
};

class Ssgd final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    batch_.declare(set);
    set.add_choice("storage", storage_,
                   {{"mirrored", Storage::mirrored}, {"central", Storage::central}},
                   "Where the parameters are updated: on every worker, or on a server.");
    set.add_choice("reduce", reduce_, {{"mean", Reduce::mean}, {"adasum", Reduce::adasum}},
                   "How workers are combined: by the mean of their gradients, or by Adasum of "
                   "their optimizers' updates.");
    set.add("overlap", overlap_,
            "Reduce gradients of upper layers while those of lower layers are computed. The result "
            "is the same, to the bit.");
    set.add("bucket", bucket_,
            "Size up to which --overlap reduces the gradients of neighbouring layers together, for "
            "example 64MiB.")
        .unit("bytes")
        .at_least(1);
    adasum_.declare(set);
  }

  void check(const Plan& plan) const override {
    check_reduce(plan);
    check_overlap();
    check_tables(plan);
    batch_.check(plan);
  }

  void worker(Worker& self) const override {
    const auto p = static_cast<std::uint64_t>(self.size());
    const std::uint64_t b = batch_.samples(self.plan(), p);
    const auto part = self.comm().block_of(self.rank(), b);
    const std::uint64_t b_i = part.end - part.begin;

    Replica fresh = self.replica();
    std::uint64_t seen = self.plan().batch_size;  // by one optimizer, for the learning rate
    std::optional<ServiceClient<PushGradient, PullParameters>> store;
    if (storage_ == Storage::central) {
      store = self.serve<CentralStore>("parameters", ServerStart::of(self, fresh.w));
    }
    std::optional<AdasumStep> adasum;
    if (reduce_ == Reduce::adasum && p > 1) {
      const std::uint64_t b_node = node_batch(self, b);
      if (batch_.split()) seen = b_node;
      adasum.emplace(self, fresh, adasum_, share_of(b_i, b_node));
    }

    MeanGradient mean(self, share_of(b_i, b));
    std::optional<OverlappedSum> overlapped;
    if (overlap_ && p > 1) overlapped.emplace(self, bucket_);

    auto& [replica, is_same, begin] = self.state([&] {
      return State{std::move(fresh), reduce_ == Reduce::mean};
    });
    const bool shared = self.plan().partition == Partition::shared;
    BatchSource& batches = self.batches();
    for (; self.running(); begin += b) {
      const double lr = self.learning_rate(seen);
      const Batch& batch = shared ? batches.at({begin + part.begin, b_i}) : batches.next(b_i);
      if (overlapped) {
        (*overlapped)(self, replica, batch, mean);
        mean.apply(self, replica, lr);
      } else if (self.gradient(replica, batch); adasum) {
        (*adasum)(self, replica, batch, lr, begin / b);
      } else {
        const auto mine = mean.addend(self, replica, batch, {0, self.model().parameters()});
        if (store) {  // the server makes the update
          store->call({lr}, mine, replica.w.span());
          self.count_shared_update();
        } else {
          if (p > 1) mean.all_reduce(self, replica);
          mean.apply(self, replica, lr);
        }
      }
      self.evaluate_here(replica.w, begin + b);
    }
  }

 private:
  struct State {
    Replica replica;
    bool is_same;             // on all workers, with the state of its optimizer
    std::uint64_t begin = 0;  // of the next global batch
    void fields(Archive& fields) {
      fields.common("begin", begin);
      if (is_same) return fields.common("replica", replica);
      fields.common("w", replica.w);
      replica.optimizer_fields(fields);
    }
  };

  static double share_of(std::uint64_t part, std::uint64_t batch) {
    return static_cast<double>(part) / static_cast<double>(batch);
  }

  void check_reduce(const Plan& plan) const {
    if (reduce_ == Reduce::mean) {
      if (adasum_.state == AdasumOptions::State::replicated) return;
      refuse("--optimizer-state", "partitioned with --reduce mean", "--reduce adasum");
    }
    if (storage_ == Storage::central) {
      refuse("--storage", "central with --reduce adasum",
             "mirrored: Adasum combines the updates of the workers' own optimizers");
    }
    adasum_.check(plan);
  }

  void check_overlap() const {
    if (!overlap_ || (storage_ == Storage::mirrored && reduce_ == Reduce::mean)) return;
    refuse("--overlap", reduce_ == Reduce::adasum ? "--reduce adasum" : "--storage central",
           "--reduce mean with --storage mirrored");
  }

  // Exchanged tables are updated by apply(), which a server or Adasum's step replaces.
  void check_tables(const Plan& plan) const {
    if (!plan.sharded_tables) return;
    const char* const found = overlap_                       ? "--overlap"
                              : plan.served_tables           ? nullptr
                              : storage_ == Storage::central ? "--storage central"
                              : reduce_ == Reduce::adasum    ? "--reduce adasum"
                                                             : nullptr;
    if (!found) return;
    refuse("--tables", fmt::format("sharded with {}", found),
           overlap_ ? "replicated there"
                    : "--reduce mean with --storage mirrored, or --table-exchange served");
  }

  // Samples of a global batch of b that this worker's node takes.
  std::uint64_t node_batch(Worker& self, std::uint64_t b) const {
    const int m = adasum_.node_size, first = self.rank() / m * m;
    return self.comm().block_of(first + m - 1, b).end - self.comm().block_of(first, b).begin;
  }

  GlobalBatch batch_;
  Storage storage_ = Storage::mirrored;
  Reduce reduce_ = Reduce::mean;
  AdasumOptions adasum_;
  bool overlap_ = false;
  std::uint64_t bucket_ = std::uint64_t{64} << 20;
};

const bool ssgd_registered = register_algorithm<Ssgd>({
    .name = "ssgd",
    .title = "Synchronous SGD",
    .idea =
        "The workers average the gradients of one global batch every iteration. All make the same "
        "update, so there is one model, and the slowest worker sets the pace.",
    .paper = "Adaptive SGD (Ma et al. 2021), sections 2.2 and 2.3 (gradient aggregation); Adasum "
             "(Maleki et al. 2021)",
    .cost = "mirrored: one all_reduce of n elements per iteration (overlap: one per bucket); "
            "central: n elements to the server and n back per worker; adasum: as mirrored, and "
            "log2 P sums of products",
    .result = "the common model",
    .identities =
        "one worker = sgd, and P workers = sgd on the global batch, up to rounding, unless the "
        "network has batch norm, whose statistics are of each worker's part; overlap on = off, to "
        "the bit; adasum of equal gradients = that gradient, of orthogonal ones = their sum",
    .lockstep = true,
});

}  // namespace

}  // namespace hetsgd
