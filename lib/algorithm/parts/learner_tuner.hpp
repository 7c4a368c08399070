// Algorithm 2 of paper 002: how many learners one device should train at once, by the batches per
// second that it completes. One more as long as the last one raised the throughput by more than a
// share tau; one less when the throughput fell.
//
// Deviations: the threshold is relative, t - t' > tau t' (the paper's is an absolute rate, to be
// chosen anew for each model). One learner stays; the paper's l_g > 0 would remove the last one.
// `literal` goes on for the whole run, so that noise in t can remove learners that were of use,
// and does not bring them back; `stop` ends with the first decision to remove.
//
// With t the throughput of this interval, t' that of the one before (0 at first):
//
//   t - t' > tau t'    one more     at the first decision always: 0 before
//   t < t'             one less     not the last one
//   else               as before
//
// Comparing with the interval before, and not with the best one, is the paper's: a slow decline of
// less than tau per interval removes one learner after the other. Pure: the caller measures, agrees
// with the other devices on what was decided, and makes or drops the replicas.
#pragma once

#include "core/error.hpp"

namespace hetsgd {

enum class TunerKind { literal, stop };

class LearnerTuner {
 public:
  LearnerTuner(TunerKind kind, double threshold) : kind_(kind), threshold_(threshold) {}

  // The number of learners from now on, after `learners` have completed `throughput` batches per
  // second. One call per interval of --tuner-every iterations: each call is the next one's t'.
  int decide(double throughput, int learners) {
    HETSGD_CHECK_LT(0, learners);
    if (ended_) return learners;
    const double before = before_;                                       // t'_g, 0 at first
    before_ = throughput;                                                // line 8
    if (throughput - before > threshold_ * before) return learners + 1;  // line 6
    if (throughput >= before * (1 - kRounding)) return learners;
    ended_ = kind_ == TunerKind::stop;
    return learners > 1 ? learners - 1 : 1;  // line 7
  }

 private:
  static constexpr double kRounding = 1e-9;  // of a clock: equal iterations take equal times

  const TunerKind kind_;
  const double threshold_;  // tau
  double before_ = 0;
  bool ended_ = false;
};

}  // namespace hetsgd
