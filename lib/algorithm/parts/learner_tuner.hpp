// CROSSBOW's algorithm 2: how many learners one device should train at once, by the batches per
// second that it completes. One learner more as long as the last one raised the throughput by more
// than a share tau; one less when the throughput fell.
//
// With t the throughput of this interval, t' that of the one before (0 at first), `literal` is
//
//   t - t' > tau t'    one more     at the first decision always: 0 before
//   t < t'             one less     not the last one
//   else               as before
//
// `stop` is the same up to the first removal, and makes no decisions after it. Both compare single
// intervals. If throughput swings by 10 % without any change, nearly every interval looks like a
// rise or a fall. So `literal` wanders for the whole run, and `stop` ends at the first fall.
// `robust`, the default, decides by the medians of windows of several intervals. It skips the first
// interval after a change, since memory grows in it:
//
//   climbing   t > (1 + tau) t'            one more     t' is the window of one learner fewer
//              else                        settled: here = t
//   settled    |t - here| > tau here       the machine has changed: climbing anew, from one fewer
//              else t < t'                 one less, settled: here = t'
//              else                        as before
//
// The first two lines of `settled` need --tuner-agree windows in a row that say the same; `here` is
// the mean of the windows within tau of it. `robust` is the default because it rests at the knee if
// measurements swing by 10 %, after the one learner too many that algorithm 2 has to try. `literal`
// never rests (with 3 % it falls to one learner), and `stop` ends below the knee in a quarter of
// the runs: results/auto_tuner.md.
//
// Deviations: the threshold is relative, t - t' > tau t' (the paper's is an absolute rate, to be
// chosen anew for each model). One learner stays; the paper's l_g > 0 would remove the last one.
// The comparison with the interval before, not with the best one, is the paper's. Under `literal` a
// slow decline of less than tau per interval removes one learner after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "algorithm/worker.hpp"
#include "core/archive.hpp"
#include "core/options.hpp"

namespace hetsgd {

enum class TunerKind { literal, stop, robust };

// Pure: the caller measures, agrees with the other devices on the decision, and makes or drops the
// replicas.
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
  void fields(Archive& fields) {
    fields("before", before_);
    fields("ended", ended_);
    fields("window", window_);
    fields("skip", skip_);
    fields("climbing", climbing_);
    fields("here", here_);
    fields("windows", windows_);
    fields("verdict", verdict_);
    fields("agreed", agreed_);
  }

 private:
  enum class Verdict { none, too_many, slower, faster };

  int decide_literally(double throughput, int learners);
  int decide_by_window(double throughput, int learners);
  Verdict verdict_on(double throughput) const;
  // Returns `learners`, and sets the state to that of a number of learners just adopted.
  int change_to(int learners, double before, double here, bool climbing);

  const Options options_;
  double before_ = 0;   // t': of the last interval; robust: of one learner fewer, 0 if not known
  bool ended_ = false;  // stop

  std::vector<double> window_;  // throughputs of the current window
  bool skip_ = false;           // whether to skip the next interval
  bool climbing_ = true;
  double here_ = 0;                  // while settled: the mean of the unchanged windows
  int windows_ = 0;                  // number of windows in that mean
  Verdict verdict_ = Verdict::none;  // of the last windows
  int agreed_ = 0;                   // how many windows in a row gave it
};

// The options that sma and easgd share (CROSSBOW; symbols as in the header of sma.cpp). easgd is
// sma with mu = 0; sma can use its --tau as well (section 5.6).

enum class SmaAveraging { flat, hierarchical };
// When z becomes the initial model again at a step of the learning rate (section 3.2): always,
// never, or if no measurement since the step before is better than all before that step.
enum class Restart { on_plateau, always, never };

struct SmaOptions {
  std::optional<double> alpha;  // none: 1/k (sma.cpp)
  double mu = 0;
  SmaAveraging averaging = SmaAveraging::flat;
  std::uint64_t tau = 1;
  bool overlap = true;
  std::optional<int> learners_per_device = 1;  // none: the tuner decides
  LearnerTuner::Options tuner;
  std::uint64_t tuner_every = 10;
  Restart restart = Restart::on_plateau;

  // Declares all options but mu and averaging, which only sma has.
  void declare(OptionSet& set);

  // An auto-tuned device begins with one learner: the tuner needs a throughput to compare with.
  bool tunes() const { return !learners_per_device; }
  int first_learners() const { return learners_per_device.value_or(1); }  // per device
  bool hierarchical() const { return averaging == SmaAveraging::hierarchical; }
  // Model-sized vectors on a device of m learners, without an optimizer's: a replica and a
  // difference for each, z, the sum that travels, and z_prev with momentum. The gradient of an
  // optimizer other than plain SGD is not among them.
  double vectors(int m) const { return 2 * m + 2 + (mu != 0 ? 1 : 0); }
};

// How many learners each device has, as all devices have agreed, and the alphas that follow.
// Algorithm 2, lines 4 to 8: every device measures, decides for itself, and sends its decision to
// the others. The worker's side: it trains share().mine learners.
//
//   begin -> iterated ... iterated -> decide() -> false, or true: the worker makes or drops
//     ^                                              |            replicas
//     '----------------------------------------------'
class LearnerCounts {
 public:
  // With the first numbers of learners. Both outlive the object.
  LearnerCounts(Worker& self, const SmaOptions& options);
  void fields(Archive& fields);

  // Collective, once in a run that goes on: counts the learners of all workers, which may be others
  // than before.
  void count();
  // An interval of measuring begins, with replicas of n parameters. Rank 0 records the numbers of
  // learners of all devices, except where a run goes on.
  void begin(std::size_t n);
  void iterated() { ++measured_; }  // every learner has learnt from a batch
  // Whether the numbers of learners were decided anew, after --tuner-every iterations. Then it is
  // collective.
  bool decide();

  const LearnerShare& share() const { return share_; }
  std::uint64_t global_batch() const;                  // samples of one iteration of all learners
  double alpha() const { return alpha_; }              // of the learners that are averaged with z
  double local_alpha() const { return local_alpha_; }  // hierarchical: of a device's further ones

 private:
  struct Decision {
    int learners;
    double throughput;  // batches per second
  };
  struct Decisions {  // by rank
    std::vector<int> learners;
    std::vector<double> throughput;
  };

  void set_share(const LearnerShare& share);
  // This device's share of the learners of all.
  void set_share(const std::vector<int>& learners);
  void warn_if_unstable(double alpha, int k, double mu);

  Worker& self_;
  const SmaOptions& o_;
  LearnerTuner tuner_;
  LearnerShare share_;
  double alpha_ = 0, local_alpha_ = 0;
  bool warned_ = self_.goes_on();
  std::shared_ptr<const Decisions> decided_;  // not recorded yet
  Seconds measured_since_{0};
  std::uint64_t measured_ = 0;  // iterations
};

}  // namespace hetsgd
