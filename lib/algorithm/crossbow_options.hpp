// The options that sma and easgd share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "algorithm/learner_tuner.hpp"
#include "core/options.hpp"

namespace hetsgd {

enum class Averaging { flat, hierarchical };
enum class Restart { on_plateau, always, never };

struct CrossbowOptions {
  std::string alpha = "auto";
  double mu = 0;
  Averaging averaging = Averaging::flat;
  std::uint64_t tau = 1;
  bool overlap = true;
  std::string learners_per_device = "1";
  TunerKind tuner = TunerKind::literal;
  double tuner_threshold = 0.1;
  std::uint64_t tuner_every = 10;
  Restart restart = Restart::on_plateau;

  // All but mu and averaging, which are sma's own.
  void declare(OptionSet& set);
  // Errors (usage): texts that are neither "auto" nor a number in range.
  void check() const;

  bool tunes() const { return learners_per_device == "auto"; }
  int first_learners() const;                 // per device, at the start
  std::optional<double> fixed_alpha() const;  // empty: 1/k (sma.cpp)
  // Model-sized vectors on a device of m learners, without an optimizer's.
  double vectors(int m) const { return 2 * m + 2 + (mu != 0 ? 1 : 0); }
};

}  // namespace hetsgd
