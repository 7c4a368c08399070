// sma: synchronous model averaging, the algorithm of CROSSBOW. Many learners, several per device if
// it pays, train replicas on small batches of their own; after every batch each replica is pulled
// towards a central average model, which takes up what they pull and moves on with momentum.
//
// Paper:      002, algorithm 1 (sma), algorithm 2 (learner_tuner.hpp), figure 6 (hierarchical),
//             figure 8 (overlap), section 3.2 (restart), section 5.6 (tau). All in crossbow.cpp,
//             which easgd shares.
// Implements: c_j = alpha (w_j - z), with the w_j before the step (9);  w_j <- w_j - lr g_j - c_j
//             (10);  z <- z + sum_j c_j + mu (z - z_prev) (12);  z_prev <- the z before (13).
// Symbols:    w_j replica of learner j of k; z average model; alpha --alpha, mu --sma-momentum,
//             l_g learners of device g (--learners-per-device), tau --tau (between averagings) and
//             --tuner-threshold (of algorithm 2), lr --learning-rate, b --batch-size (a learner's).
// Cost:       one all_reduce of n numbers per iteration, behind the batch with --overlap; of memory
//             2 l + 3 vectors of n numbers on a device; with auto a few numbers per tuner decision.
// Records:    event "learners" {learners, alpha, vector_bytes, throughput_per_s: batches, of each
//             device} at the start and at every decision of the tuner; event "restart" {samples,
//             accuracy_before, accuracy_since}; histogram "contributors"; under --record-steps
//             event "all_reduce" {rank, start_s}.
// Deviations: alpha is 1/k by default (the paper: about), but 1/2 for k = 1: with 1 a lone learner
//             takes turns with z, w <- z - lr g, z <- w, which diverges without momentum. Empty z_prev is z_prev = z. A
//             round of tau iterations ends with the averaging. Hierarchical, where the paper says
//             little: the first learner of a device manages the reference model, which is its
//             replica; algorithm 1 runs among the references with alpha 1/P; a further learner
//             moves by -d_j and the reference by +d_j, d_j = (w_j - reference) / (l_g + 1), which
//             is stable beside the pull of z (1/l_g is not without momentum). z is a model
//             of its own with a copy on every device (as in section 4.2), not one of the
//             references. Batches are dealt in the order of devices and learners, not first come
//             first served, so that runs are reproducible. A device's throughput is counted over
//             all its time, also the time in which it waits for others. A restart happens at a
//             step of --schedule step, if what was measured since the step before is no better
//             than all before that one (the paper restarts as soon as a step is seen not to have
//             helped); without a measurement in between it does not happen. Optimizers forget
//             their state then.

#include "algorithm/algorithm.hpp"
#include "algorithm/crossbow.hpp"

namespace hetsgd {
namespace {

class Sma final : public Algorithm {
 public:
  Sma() { o_.mu = 0.9; }

  void declare(OptionSet& options) override {
    options.add_choice("sma", o_.averaging,
                       {{"flat", Averaging::flat}, {"hierarchical", Averaging::hierarchical}},
                       "average all learners, or those of a device first");
    options.add("sma_momentum", o_.mu, "momentum of the average model").symbol("mu").range(0, 1);
    o_.declare(options);
  }

  void check(const Plan&) const override { o_.check(); }
  double model_vectors(const Plan&) const override { return o_.vectors(o_.first_learners()); }
  void worker(Worker& self) const override { Crossbow(self, o_).train(); }

 private:
  CrossbowOptions o_;
};

const bool sma_registered = register_algorithm<Sma>({
    .name = "sma",
    .title = "SMA (CROSSBOW)",
    .idea = "Many learners, several per device, train replicas on small batches; after every batch "
            "each is corrected towards an average model that moves with momentum. The averaging "
            "travels while the batches are computed.",
    .paper = "002, algorithms 1 and 2, figures 6 and 8",
    .cost = "one all_reduce of n numbers per iteration, behind the computation",
    .result = "the central average model z",
    .identities = "alpha 0 = independent sgd runs; momentum 0 = easgd; one learner per device: "
                  "hierarchical = flat; with and without overlap the same to the bit",
});

}  // namespace
}  // namespace hetsgd
