// easgd: elastic averaging SGD, synchronous. Every learner trains a replica; every tau iterations
// an elastic force pulls the replicas towards their average model, and that towards them.
//
// Paper:      Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015,
//             equations 5 and 6; baseline of 002, section 5.5. Shares the code of sma
//             (crossbow.cpp), of which it is the case mu = 0.
// Implements: c_j = alpha (w_j - z);  w_j <- w_j - lr g_j - c_j;  z <- z + sum_j c_j.
// Symbols:    alpha --alpha (1/k by default, k learners), tau --tau, lr --learning-rate.
// Cost:       one all_reduce of n numbers every tau iterations, behind the batch with --overlap.
// Records:    as sma.
// Deviations: the averaging is in the last iteration of every tau, not in the first one, where at
//             the start of a run it would do nothing. alpha is 1/2 for one learner (see sma).

#include "algorithm/algorithm.hpp"
#include "algorithm/crossbow.hpp"

namespace hetsgd {
namespace {

class Easgd final : public Algorithm {
 public:
  void declare(OptionSet& options) override { o_.declare(options); }
  void check(const Plan&) const override { o_.check(); }
  double model_vectors(const Plan&) const override { return o_.vectors(o_.first_learners()); }
  void worker(Worker& self) const override { Crossbow(self, o_).train(); }

 private:
  CrossbowOptions o_;
};

const bool easgd_registered = register_algorithm<Easgd>({
    .name = "easgd",
    .title = "EA-SGD",
    .idea = "Learners train replicas; every few iterations an elastic force pulls the replicas and "
            "their average model towards each other.",
    .paper = "Zhang et al. 2015; baseline of 002 section 5.5",
    .cost = "one all_reduce of n numbers every tau iterations, behind the computation",
    .result = "the central average model z",
    .identities = "alpha 0 = independent sgd runs; tau 1 = sma without momentum",
});

}  // namespace
}  // namespace hetsgd
