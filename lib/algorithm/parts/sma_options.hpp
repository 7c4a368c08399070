// The options that sma and easgd share (paper 002; symbols as in the header of sma.cpp). easgd is
// sma with mu = 0; its --tau is of use to sma as well (section 5.6).
#pragma once

#include <cstdint>
#include <optional>

#include "algorithm/parts/learner_tuner.hpp"
#include "core/options.hpp"

namespace hetsgd {

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
