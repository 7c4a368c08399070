// Learning-rate schedules: a factor on the learning rate as a function of the epoch e.
//
// With w the end of the warm-up and E that of the decay, after the warm-up:
//   linear        (E - e) / (E - w)
//   cosine        f + (1 - f) (1 + cos(pi (e - w) / (E - w))) / 2, then f (Loshchilov, Hutter 2017)
//   polynomial    ((E - e) / (E - w))^power; with DecayFrom::start ((E - e) / E)^power, which drops
//                 at w (NVIDIA's BERT)
//   step          step_factor for each of step_epochs that has passed
//   inverse_time  1 / (1 + d e)
//   inverse_sqrt  sqrt(w / e) (Vaswani et al. 2017, section 5.3)
#pragma once

#include <optional>
#include <vector>

#include "core/options.hpp"

namespace hetsgd {

enum class ScheduleKind { constant, linear, cosine, step, inverse_time, polynomial, inverse_sqrt };
enum class DecayFrom { warmup, start };

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  // Any kind: the factor rises linearly over these epochs, from 0 at the run's first batch.
  double warmup_epochs = 0;
  std::optional<double> decay_epochs{};  // E of a kind that decays(); none: the end of the run
  std::vector<double> step_epochs{};  // step: step_factor applies once more from each of these on
  double step_factor = 0.1;
  double inverse_rate = 0.1;  // inverse_time: d
  double decay_power = 0.5;   // polynomial
  double lr_floor = 0.1;      // cosine: f
  DecayFrom decay_from = DecayFrom::warmup;
  double warmup_share = 0;  // in place of warmup_epochs: w as a share of E or of the run

  void declare(OptionSet& set);
  // Throws Error(usage) for a kind without the parameters that it needs.
  void validate() const;
  // The schedule of a run of `epochs` epochs (0: its length is not known in epochs). Its
  // decay_epochs and warmup_epochs are numbers. Throws Error(usage) for a decay that ends before
  // the warm-up, and for a length that is needed but not known.
  Schedule of_run(double epochs) const;
  // The factor at `epoch`, in [0, 1] for every epoch >= 0. For a kind that decays() decay_epochs
  // must be set.
  double factor(double epoch) const;

 private:
  // It comes to its last value at E.
  bool decays() const {
    return kind == ScheduleKind::linear || kind == ScheduleKind::cosine ||
           kind == ScheduleKind::polynomial;
  }
};

}  // namespace hetsgd
