// Learning-rate schedules: a factor on the learning rate as a function of the epoch.
#pragma once

#include <vector>

#include "core/options.hpp"

namespace hetsgd {

enum class ScheduleKind { constant, linear, step, inverse_time };

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double warmup_epochs = 0;         // any kind: the factor rises linearly from 0 over these epochs
  double decay_epochs = 0;          // linear: after the warm-up down to 0 at this epoch
  std::vector<double> step_epochs;  // step: step_factor applies once more from each of these on
  double step_factor = 0.1;
  double inverse_rate = 0.1;  // inverse_time: 1 / (1 + d epoch)

  void declare(OptionSet& set);
  // Errors (usage): a kind without the parameters that it needs.
  void validate() const;
  // The factor at `epoch`, in [0, 1] for every epoch >= 0.
  double factor(double epoch) const;
};

}  // namespace hetsgd
