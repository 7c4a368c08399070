// Algorithm 2 of paper 002: how many learners one device should train at once, by the batches per
// second that it completes. One more as long as the last one raised the throughput by more than a
// share tau; one less when the throughput fell.
//
// With t the throughput of this interval, t' that of the one before (0 at first), `literal` is
//
//   t - t' > tau t'    one more     at the first decision always: 0 before
//   t < t'             one less     not the last one
//   else               as before
//
// `stop` is the same up to the first removal, and no more decisions after it. Both compare single
// intervals: throughput that swings by 10 % without any change is a rise or a fall in nearly every
// one, so `literal` wanders for the whole run, and `stop` ends wherever the first fall meets it.
// `robust`, the default, decides by the medians of windows of several intervals; the first interval
// after a change is not counted, since memory grows in it:
//
//   climbing   t > (1 + tau) t'            one more     t' is the window of one learner fewer
//              else                        settled: here = t
//   settled    |t - here| > tau here       the machine has changed: climbing anew, from one fewer
//              else t < t'                 one less, settled: here = t'
//              else                        as before
//
// where the first two lines of `settled` need --tuner-agree windows in a row that say the same, and
// `here` is the mean of the windows within tau of it. It is the default because with measurements
// that swing by 10 % it rests at the knee, after the one learner too many that algorithm 2 has to
// try, where `literal` never rests (by 3 %: falls to one learner) and `stop` ends below in a
// quarter of the runs: results/auto_tuner.md.
//
// Deviations: the threshold is relative, t - t' > tau t' (the paper's is an absolute rate, to be
// chosen anew for each model). One learner stays; the paper's l_g > 0 would remove the last one.
// Comparing with the interval before, and not with the best one, is the paper's: under `literal` a
// slow decline of less than tau per interval removes one learner after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/options.hpp"

namespace hetsgd {

enum class TunerKind { literal, stop, robust };

// Pure: the caller measures, agrees with the other devices on what was decided, and makes or drops
// the replicas.
class LearnerTuner {
 public:
  struct Options {
    TunerKind kind = TunerKind::robust;
    double threshold = 0.1;  // tau
    int window = 5;          // intervals, of robust
    int agree = 3;           // windows, of robust
  };
  explicit LearnerTuner(const Options& options) : options_(options) {}

  // The number of learners from now on, after `learners` (the last answer; 1 at first) have
  // completed `throughput` batches per second in an interval. One call per interval of
  // --tuner-every iterations.
  int decide(double throughput, int learners);

 private:
  enum class Verdict { none, too_many, slower, faster };

  int decide_literally(double throughput, int learners);
  int decide_by_window(double throughput, int learners);
  Verdict verdict_on(double throughput) const;
  // `learners` from now on, the state being that of a number that was just taken up.
  int change_to(int learners, double before, double here, bool climbing);

  const Options options_;
  double before_ = 0;   // t': of the last interval; robust: of one learner fewer, 0 if not known
  bool ended_ = false;  // stop

  std::vector<double> window_;  // so far
  bool skip_ = false;           // the next interval
  bool climbing_ = true;
  double here_ = 0;                  // while settled: the mean of the windows that were as it was
  int windows_ = 0;                  // of that mean
  Verdict verdict_ = Verdict::none;  // of the last windows
  int agreed_ = 0;                   // how many of them
};

// The options that sma and easgd share (paper 002; symbols as in the header of sma.cpp). easgd is
// sma with mu = 0; its --tau is of use to sma as well (section 5.6).

enum class SmaAveraging { flat, hierarchical };
// At a step of the learning rate (section 3.2): z becomes the initial model again if what was
// measured since the step before is no better than all before that one; whatever was measured;
// never.
enum class Restart { on_plateau, always, never };

struct SmaOptions {
  std::optional<double> alpha;  // none: 1/k (sma.cpp)
  double mu = 0;
  SmaAveraging averaging = SmaAveraging::flat;
  std::uint64_t tau = 1;
  bool overlap = true;
  std::optional<int> learners_per_device = 1;  // none: the tuner's
  LearnerTuner::Options tuner;
  std::uint64_t tuner_every = 10;
  Restart restart = Restart::on_plateau;

  // All but mu and averaging, which are sma's own.
  void declare(OptionSet& set);

  // An auto-tuned device begins with one learner: the tuner needs a throughput to compare with.
  bool tunes() const { return !learners_per_device; }
  int first_learners() const { return learners_per_device.value_or(1); }  // per device
  // Model-sized vectors on a device of m learners, without an optimizer's: a replica and a
  // difference for each, z, the sum that travels, and z_prev with momentum. The gradient of an
  // optimizer other than plain SGD is not among them.
  double vectors(int m) const { return 2 * m + 2 + (mu != 0 ? 1 : 0); }
};

}  // namespace hetsgd
