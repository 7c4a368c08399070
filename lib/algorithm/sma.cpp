// sma: synchronous model averaging, the algorithm of CROSSBOW. Many learners, several per device if
// it pays, train replicas on small batches of their own; after every batch each replica is pulled
// towards a central average model, which moves by these pulls and by momentum.
// easgd: elastic averaging SGD, synchronous: the same without momentum, every tau iterations.
//
// Paper:      CROSSBOW (Koliousis et al. 2019), algorithm 1 (sma), algorithm 2
//             (parts/learner_tuner.hpp), figure 6 (hierarchical), figure 8 (overlap),
//             section 3.2 (restart), section 5.6 (tau).
//             easgd: Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS
//             2015, equations 5 and 6; baseline of CROSSBOW, section 5.5.
// Implements: c_j = alpha (w_j - z), with the w_j before the step (9);  w_j <- w_j - lr g_j - c_j
//             (10);  z <- z + sum_j c_j + mu (z - z_prev) (12);  z_prev <- the z before (13).
//             easgd: mu = 0. Another --optimizer takes the place of w_j - lr g_j.
// Symbols:    w_j replica of learner j of k; z average model; alpha --alpha, mu --sma-momentum,
//             l_g learners of device g (--learners-per-device), tau --tau (between averagings) and
//             --tuner-threshold (of algorithm 2), lr --learning-rate, b --batch-size (a learner's).
// Cost:       one all_reduce of n elements per iteration (easgd: every tau iterations), behind the
//             batch with --overlap: c_j depends on the w_j before the step alone, so the sum over
//             devices travels during the step. On a device two passes per learner, one before the
//             step and one after it. Memory: 2 l + 3 vectors of n elements on a device;
//             with auto a few numbers per tuner decision.
// Records:    event "learners" {learners, alpha, vector_bytes, throughput_per_s: batches, of each
//             device} at the start and at every decision of the tuner; event "restart" {samples,
//             accuracy_before, accuracy_since}; histogram "contributors"; under --record-steps
//             event "all_reduce" {rank, start_s}.
// Deviations: alpha is 1/k by default (the paper: about), but 1/2 for k = 1: with 1 a lone learner
//             takes turns with z, w <- z - lr g, z <- w, which diverges without momentum. Empty
//             z_prev is z_prev = z. A round of tau iterations ends with the averaging (in EA-SGD's
//             paper it begins with it, which at the start of a run does nothing). Hierarchical,
//             where the paper says little: the first learner of a device manages the reference
//             model, which is its replica; algorithm 1 runs among the references with alpha 1/P; a
//             further learner moves by -d_j and the reference by +d_j,
//             d_j = (w_j - reference) / (l_g + 1), which is stable beside the pull of z (1/l_g is
//             not without momentum). z is a model of its own with a copy on every device (as in
//             section 4.2), not one of the references. Batches are dealt in the order of devices
//             and learners, not first come first served, so that runs are reproducible. A device's
//             throughput is counted over all its time, also the time in which it waits for others.
//             A restart happens at a step of --schedule step, if what was measured since the step
//             before is no better than all before that one (the paper restarts as soon as a step
//             is seen not to have helped); without a measurement in between it does not happen.
//             Optimizers forget their state then. Learners of a device compute at the same time,
//             on streams (linalg/streams.hpp; cpu:N: on N/l_g cores each; sim: as long as l_g over
//             the profile's saturation says), and their next batches are staged meanwhile; the
//             differences and corrections of a device are one computation of the whole device, not
//             tasks on the learners' streams, and the next batches begin when all are corrected.
//             The default tuner is not algorithm 2's literal form (parts/learner_tuner.hpp says
//             why). The learners' own momentum and weight decay are those of --optimizer, with a
//             state for each learner, also of several on a device. Algorithm 1 has none, and so the
//             default has none; the authors' runs have momentum 0.9: --optimizer momentum, with
//             --learners-per-device 2 or 4.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/learner_tuner.hpp"

namespace hetsgd {
namespace {

// One worker: a device with its l_g learners.
class Learners {
 public:
  // Collective.
  Learners(Worker& self, const SmaOptions& options)
      : self_(self),
        o_(options),
        z_(self.initial_parameters()),
        sum_(self.vector()),
        learners_(self, options) {
    if (o_.mu != 0) z_prev_ = self.initial_parameters();  // z_prev = z: no momentum at first
    resize();
    learners_.begin(z_.size());
  }

  // Between two rounds.
  void fields(Archive& fields) {
    learners_.fields(fields);
    resize();
    for (std::size_t j = 0; j < w_.size(); ++j) {
      fields(fmt::format("replica{}", j), w_[j]);
      if (fields.joins()) fields.common("z", w_[j].w);
    }
    fields.common("z", z_);
    fields.common("z_prev", z_prev_);
    fields.common("samples", samples_);
    fields.common("samples_before", samples_before_);
    fields.common("rate_steps", rate_steps_);
    fields.common("rate_step_at", rate_step_at_);
  }

  // The worker's whole life.
  void train() {
    if (self_.goes_on()) learners_.count();
    while (self_.running()) {
      restart_if_due();
      samples_before_ = samples_;
      for (std::uint64_t left = iterations_until_average(); left > 0; --left) iterate(left == 1);
      tune();
      self_.evaluate_here(z_, samples_);
    }
  }

 private:
  // --- algorithm 1, lines 4 to 13 ---------------------------------------------------------------
  void iterate(bool average) {
    const std::uint64_t b = self_.plan().batch_size;
    const std::span<const Batch> batches =
        self_.batches().next(b, learners_.share());  // lines 6, 7
    Pending sum;
    if (average) {
      corrections();  // line 9
      if (o_.overlap) sum = self_.comm().start(sum_over_devices());
    }
    self_.learn(w_, batches, self_.learning_rate(b, epoch()));  // lines 8, 10
    if (average) {
      finish_sum(sum);
      correct();  // lines 10, 12, 13
      if (self_.rank() == 0) self_.observe("contributors", learners_.share().all);
    }
    samples_ += learners_.global_batch();
    learners_.iterated();
  }

  // d_j <- w_j - z, or w_j - reference (learner 0's replica), in one pass per learner with this
  // device's part of sum_j c_j, c_j = alpha d_j, over the learners that are averaged with z. A pass
  // streams w, z, d and the sum, which all but the first of these learners read as well.
  void corrections() {
    const auto m = static_cast<double>(w_.size());
    const double passes = o_.hierarchical() ? 3 + 1 / m : 5 - 1 / m;
    each_learner(passes, [&](std::size_t j) {
      Device& device = self_.device();
      const float* const w = w_[j].w.data();
      if (o_.hierarchical() && j > 0) {
        return device.apply(z_.size(), rule::Combine<float>{1, -1}, w, w_.front().w.data(),
                            d_[j].data());
      }
      const auto alpha = static_cast<float>(learners_.alpha());
      device.apply(z_.size(), rule::Correction<float>{alpha, j == 0 ? 0.0F : 1.0F}, w, z_.data(),
                   sum_.data(), d_[j].data());
    });
  }

  // w_j <- w_j - c_j, in one pass per learner, the first of which moves z as well:
  //   z' = z + sum_j c_j + mu (z - z_prev);  z_prev <- z;  z <- z'
  // A reference model takes in the corrections of its further learners.
  void correct() {
    const auto m = static_cast<double>(w_.size());
    each_learner(3 + (o_.mu == 0 ? 3 : 5) / m, [&](std::size_t j) {
      if (j > 0) return add(-further_alpha(), d_[j], w_[j].w);
      Device& device = self_.device();
      const auto alpha = static_cast<float>(learners_.alpha());
      if (o_.mu == 0) {
        return device.apply(z_.size(), rule::Averaging<float>{alpha}, d_[0].data(), sum_.data(),
                            w_[0].w.data(), z_.data());
      }
      device.apply(z_.size(), rule::MomentumAveraging<float>{alpha, static_cast<float>(o_.mu)},
                   d_[0].data(), sum_.data(), w_[0].w.data(), z_.data(), z_prev_.data());
    });
    if (!o_.hierarchical() || w_.size() == 1) return;
    self_.compute_vectors(3 * (m - 1), [&] {
      for (std::size_t j = 1; j < w_.size(); ++j) add(further_alpha(), d_[j], w_.front().w);
    });
  }

  CollectiveRequest sum_over_devices() {
    return all_reduce(sum_.span(), ReduceOp::sum, Traffic::parameters);
  }
  // The same bits with and without overlap; only the time differs.
  void finish_sum(Pending& travelling) {
    if (self_.size() == 1) return;
    CallTime time{self_.now(), {}};
    if (o_.overlap) {
      time = travelling.wait();
    } else {
      self_.comm().make(sum_over_devices());
      time.end = self_.now();
    }
    if (!self_.plan().record_steps) return;
    self_.record({{"type", "all_reduce"}, {"rank", self_.rank()}, {"start_s", time.begin.count()}},
                 time.end);
  }

  double further_alpha() const {  // of a device's learners but the first
    return o_.hierarchical() ? learners_.local_alpha() : learners_.alpha();
  }

  // y <- y + a x, inside a computation.
  void add(double a, const Buffer& x, Buffer& y) {
    self_.device().axpby(x.size(), static_cast<float>(a), x.data(), 1.0F, y.data());
  }
  template <class Fn>
  void each_learner(double passes, Fn&& fn) {
    self_.compute_vectors(
        passes,
        [&] {
          for (std::size_t j = 0; j < w_.size(); ++j) fn(j);
        },
        static_cast<int>(w_.size()));
  }

  // --- rounds -----------------------------------------------------------------------------------
  // tau, or fewer if the budget ends before.
  std::uint64_t iterations_until_average() const {
    const std::uint64_t budget = self_.plan().max_samples;
    if (budget <= samples_) return o_.tau;
    const std::uint64_t global_batch = learners_.global_batch();
    return std::min(o_.tau, (budget - samples_ + global_batch - 1) / global_batch);
  }

  double epoch() const {
    return static_cast<double>(samples_) / static_cast<double>(self_.plan().rows);
  }

  // Section 3.2, last paragraph: algorithm 1 again with z as the initial model.
  void restart_if_due() {
    const Schedule& schedule = self_.plan().schedule;
    if (o_.restart == Restart::never || schedule.kind != ScheduleKind::step) return;
    const auto steps = static_cast<std::size_t>(std::ranges::count_if(
        schedule.step_epochs, [now = epoch()](double at) { return now >= at; }));
    if (steps == rate_steps_) return;
    const auto before = self_.best_accuracy(0, rate_step_at_);
    const auto since = self_.best_accuracy(rate_step_at_ + 1, samples_before_);
    rate_steps_ = steps;
    rate_step_at_ = samples_;
    const bool plateau = before && since && *since <= *before;
    if (o_.restart == Restart::on_plateau && !plateau) return;
    if (self_.rank() == 0) {
      self_.record({{"type", "restart"},
                    {"samples", samples_},
                    {"accuracy_before", before ? nlohmann::json(*before) : nullptr},
                    {"accuracy_since", since ? nlohmann::json(*since) : nullptr}});
    }
    for (Replica& replica : w_) {
      self_.copy(z_, replica.w);
      replica.optimizer.reset();
    }
    if (o_.mu != 0) self_.copy(z_, z_prev_);
  }

  // --- algorithm 2, lines 4 to 8 ----------------------------------------------------------------
  void tune() {
    if (!learners_.decide()) return;
    const std::size_t known = w_.size();
    resize();
    for (std::size_t j = known; j < w_.size(); ++j) self_.copy(z_, w_[j].w);
    learners_.begin(z_.size());
  }

  // To this device's number of learners. A removed learner leaves what it has learnt in z.
  void resize() {
    const auto m = static_cast<std::size_t>(learners_.share().mine);
    if (w_.size() > m) w_.resize(m);
    d_.resize(w_.size());
    while (w_.size() < m) {
      w_.push_back(self_.replica());
      d_.push_back(self_.vector());
    }
  }

  Worker& self_;
  const SmaOptions& o_;
  std::vector<Replica> w_;  // w_j of this device
  std::vector<Buffer> d_;   // d_j
  Buffer z_, z_prev_;       // z_prev only with momentum
  Buffer sum_;              // of c_j

  LearnerCounts learners_;

  std::uint64_t samples_ = 0;  // of all learners, at the current iteration
  // the round before: all workers know the measurements up to then
  std::uint64_t samples_before_ = 0;
  std::size_t rate_steps_ = 0;      // steps of the learning rate so far
  std::uint64_t rate_step_at_ = 0;  // the last one, in samples
};

class Easgd : public Algorithm {
 public:
  void declare(OptionSet& set) override { o_.declare(set); }
  double model_vectors(const Plan&) const override { return o_.vectors(o_.first_learners()); }
  void worker(Worker& self) const override {
    self.state([&] { return Learners(self, o_); }).train();
  }

 protected:
  SmaOptions o_;
};

class Sma final : public Easgd {
 public:
  Sma() { o_.mu = 0.9; }

  void declare(OptionSet& set) override {
    set.add_choice(
        "sma", o_.averaging,
        {{"flat", SmaAveraging::flat}, {"hierarchical", SmaAveraging::hierarchical}},
        "How learners are averaged. flat: all at once. hierarchical: first those of each device.");
    set.add("sma_momentum", o_.mu, "Momentum of the average model.").symbol("mu").range(0, 1);
    Easgd::declare(set);
  }
};

const bool sma_registered = register_algorithm<Sma>({
    .name = "sma",
    .title = "SMA (CROSSBOW)",
    .idea = "Many learners, several per device, train replicas on small batches; after every batch "
            "each is corrected towards an average model that moves with momentum. Communication "
            "overlaps with computing.",
    .paper = "CROSSBOW (Koliousis et al. 2019), algorithms 1 and 2, figures 6 and 8",
    .cost = "one all_reduce of n elements per iteration, behind the computation",
    .result = "the central average model z",
    .identities = "alpha 0 = independent sgd runs; momentum 0 = easgd; one learner per device: "
                  "hierarchical = flat; with and without overlap the same to the bit",
    .replicated_tables_only = "corrects replicas, and rows of sharded tables have none",
});

const bool easgd_registered = register_algorithm<Easgd>({
    .name = "easgd",
    .title = "EA-SGD",
    .idea = "Learners train replicas; every few iterations an elastic force pulls the replicas and "
            "their average model towards each other.",
    .paper = "Zhang et al. 2015; baseline of CROSSBOW (section 5.5)",
    .cost = "one all_reduce of n elements every tau iterations, behind the computation",
    .result = "the central average model z",
    .identities = "alpha 0 = independent sgd runs; tau 1 = sma without momentum",
    .replicated_tables_only = "corrects replicas, and rows of sharded tables have none",
});

}  // namespace
}  // namespace hetsgd
